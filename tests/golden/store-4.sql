CREATE TABLE batches (
	number INTEGER NOT NULL, 
	edit_id TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	person TEXT NOT NULL, 
	at TEXT NOT NULL, 
	action TEXT NOT NULL, 
	text TEXT NOT NULL, 
	size INTEGER NOT NULL, 
	last INTEGER NOT NULL, 
	undoes INTEGER, 
	seal TEXT, 
	PRIMARY KEY (number), 
	UNIQUE (edit_id)
);
INSERT INTO "batches" VALUES(1,'first','c9ba282bbc3b83d1052a83cd96d152bdf3fcb100d50ee8e29d22504110b9309c','import','2026-11-17T02:30:45.120Z','import','imported a graph of 5 classes and 5 kinds',1,1,NULL,'d0e97d18f852912d573b4eed32177a19');
INSERT INTO "batches" VALUES(2,'edit 0','5bb4415e83c8565abf6542e668634d13d12c73d78cef76768d4c78fddc9f7712','ann','2026-11-17T02:30:45.148Z','decide','decided ''kung pao @ B'', ''with''',1,2,NULL,'a82b1ddac32c183c41d8734b8938f45f');
INSERT INTO "batches" VALUES(3,'b1','e99fd8aec54f605831b1f0371c129996c4f72e179804062962a5d319433f5452','bob','2026-11-17T02:30:45.166Z','decide','decided ''kung pao @ B'', ''with''',1,3,NULL,'e30b5c5deb8a2006c4f9bc4e0cea723e');
INSERT INTO "batches" VALUES(4,'edit 1','340417693cd8e0b8343f92692cfb4ed0382ec7f319607fab0ae24b89e81914f9','ann','2026-11-17T02:30:45.172Z','resolve','settled ''kung pao @ B'', ''with''',1,4,NULL,'4c26edc1ce4b4ea4372453c166b43ba8');
INSERT INTO "batches" VALUES(5,'edit 2','4dae7a6438e302b0af0f1c457e0f06b498a0ef50a713475bd235e9fafd4dec03','ann','2026-11-17T02:30:45.177Z','decide','decided ''crème brûlée @ A'', ''dish''',1,5,NULL,'fa3fbb0d7e93edeb7a715858d9d1a5b9');
INSERT INTO "batches" VALUES(6,'edit 3','0e971abdb338915e6bcf06b3b457c437b4440b57dba09611c956100f506fead3','ann','2026-11-17T02:30:45.183Z','decide','decided ''crème brûlée @ A'', ''dish''',1,6,NULL,'dfbf1f155fde3130b358a275c0f358ce');
INSERT INTO "batches" VALUES(7,'edit 4','e63c80eec6fd34a14904e85b6a559f3a4c4545ecd706a1ea884af72d38103a89','ann','2026-11-17T02:30:45.189Z','undo','undid: decided ''crème brûlée @ A'', ''dish''',1,7,6,'2dbe778cbe5ead14d511448bb87dca5f');
INSERT INTO "batches" VALUES(8,'edit 5','757c3bd42a17044bc2d959253390dabb62fc5a43d3ad7c328d151d3557588172','ann','2026-11-17T02:30:45.200Z','add_label','added the label ''crème brûlée'' to the kind ''dish''',1,8,NULL,'6a0d08d0dda61b65cf0ddca0c54ec056');
INSERT INTO "batches" VALUES(9,'b2','a07ff5765a28f53e0f4935d0680d1adcb6c004e683379d6dcfdbadc0885d3973','bob','2026-11-17T02:30:45.211Z','decide','decided ''crème brûlée @ A'', ''dish''',1,9,NULL,'bda47f0aa30d74a3b73fe97751e4e5ff');
INSERT INTO "batches" VALUES(10,'edit 6','ae006edd14e433d629c6cd3246a792c563829cb2ace2c0e2e17d8aa47758eeba','ann','2026-11-17T02:30:45.216Z','note','changed the note of ''kung pao @ A''',1,10,NULL,'1ed70ef69d92b18ca58b88c83fe36d20');
INSERT INTO "batches" VALUES(11,'edit 7','1616d97673bc5e8f37f8ba5ebbd831a3c86dbaaf3f6208d1d503d4da00f1712b','ann','2026-11-17T02:30:45.223Z','photo','labelled the photo ''kung pao @ A/1.jpg'', ''served''',1,11,NULL,'6288ee78770936db534f61a3ffae8119');
INSERT INTO "batches" VALUES(12,'b3','d8511054cd3e6aa38e1dbc9a1679529fe91a5d7b8f5d41457f4f5f192ecdf833','bob','2026-11-17T02:30:45.230Z','photo','labelled the photo ''kung pao @ A/2.jpg'', ''with''',1,12,NULL,'c8fe146fa359267d69b97ba26689cb5c');
INSERT INTO "batches" VALUES(13,'edit 8','46c8bb6533a8b507dd3467f202d86c0a5c31135e95778f7ef014aacfad131d4f','ann','2026-11-17T02:30:45.234Z','rename_fine','renamed the class ''kung pao @ A'' to ''kung pao @ C''',1,13,NULL,'55f638e30c2500714e48e71d908d5140');
INSERT INTO "batches" VALUES(14,'edit 9','67f73b05b2e8808479c232245c308c8fa44cd4e9274cfbf29df6a23fca57765e','ann','2026-11-17T02:30:45.243Z','rename_label','renamed the label ''plate'' of kind ''served'' to ''large plate''',1,14,NULL,'940a69de831f6369d17d7527a3861044');
INSERT INTO "batches" VALUES(15,'edit 10','da9dea829ee05fb86c8410984e92afc7f2592dda3cc038c24676909a4b76a91c','ann','2026-11-17T02:30:45.249Z','merge_labels','merged ''kung pao'', ''crème brûlée'' of kind ''dish'' into ''kung pao''',2,16,NULL,'8ebc6729300b55d645caea3d0c65c84c');
INSERT INTO "batches" VALUES(16,'edit 11','3bc5780056fabc78a837dc652adf94083d992083ecdcd38a1639436b4b65a126','ann','2026-11-17T02:30:45.261Z','add_fine','added the class ''ramen @ A''',1,17,NULL,'3317b81cdb9672cc1fa704850da9ac39');
INSERT INTO "batches" VALUES(17,'edit 12','b932de20ebf130db7414e5350b109d66fed885c808f5f0fc5c7c8376d755f9f4','ann','2026-11-17T02:30:45.267Z','remove_fine','removed the class ''mapo tofu @ B''',1,18,NULL,'e4156dca57efc896c70d66fe6d66763c');
INSERT INTO "batches" VALUES(18,'heat','68317673b454ec030ffeb21783aa8ddacfc4ef0f327fa57561068f7eda256c9c','ann','2026-11-18T01:23:50.459Z','add_kind','added the kind ''heat'' with 1 label',2,20,NULL,'694eb267cf407d33cc6718b1198d3f16');
INSERT INTO "batches" VALUES(19,'c1','667a0979a082979c0909699bbbfd089121b0ef410565f22b74b4c6458c9ebf65','ann','2026-11-18T01:23:50.562Z','compare','compared ''mapo tofu @ A'' with ''kung pao @ C'', ''heat''',1,21,NULL,'761e001a925d247eb00f5638b99cc552');
INSERT INTO "batches" VALUES(20,'c2','c96013c8e09b899ba3c27bc0041bcecc1205b2806b778f1737f785ec45002c28','ann','2026-11-18T01:23:50.590Z','compare','compared ''kung pao @ B'' with ''mapo tofu @ A'', ''heat''',1,22,NULL,'525f367e00e57cbe0d227dc5919cba7c');
INSERT INTO "batches" VALUES(21,'c3','56d36d00d20d0b7ab657307e10d285d7858a64f30c88370b9a44e6a1b4eec5b3','bob','2026-11-18T01:23:50.610Z','compare','compared ''kung pao @ C'' with ''mapo tofu @ A'', ''heat''',1,23,NULL,'b612933e4549d2c917d24ac8e4e134eb');
INSERT INTO "batches" VALUES(22,'c4','c541b647b57e77ba9a1e3a7f1fd0ba453341e4405cf540764fcbb4ed107b2ab0','bob','2026-11-18T01:23:50.629Z','compare','compared ''a/1.jpg'' with ''b/豆腐.jpg'', ''heat''',1,24,NULL,'9539971972ff3c362b94e5c4152ec1e8');
INSERT INTO "batches" VALUES(23,'c5','2aafb33dc5a21f0877246f54c2d4eebc7e223f8116162a04c014bbbdb21dd8e5','ann','2026-11-18T01:23:50.646Z','compare','compared ''crème brûlée @ A'' with ''mapo tofu @ A'', ''heat''',1,25,NULL,'a57337f4497d20cc07f2a52fae68ab68');
INSERT INTO "batches" VALUES(24,'c6','4c606647b4e1480c4405f6cf08b822eb2a2508410b7d1cb92926e13270bb45d5','ann','2026-11-18T01:23:50.660Z','undo','undid: compared ''kung pao @ B'' with ''mapo tofu @ A'', ''heat''',1,26,20,'b7e3891a0f463f8ee2edd6c8eded7cca');
CREATE TABLE beliefs (
	kind_id INTEGER NOT NULL, 
	fine_id INTEGER NOT NULL, 
	probabilities TEXT NOT NULL, 
	seal BIGINT, 
	PRIMARY KEY (kind_id, fine_id)
);
INSERT INTO "beliefs" VALUES(2,3,'{"3":0.8,"4":0.2}',85117403);
CREATE TABLE cells (
	kind_id INTEGER NOT NULL, 
	fine_id INTEGER NOT NULL, 
	value TEXT, 
	"by" TEXT, 
	at TEXT, 
	resolved INTEGER NOT NULL, 
	disagreement INTEGER NOT NULL, 
	confidence FLOAT, 
	version INTEGER NOT NULL, 
	seal BIGINT, 
	PRIMARY KEY (kind_id, fine_id)
);
INSERT INTO "cells" VALUES(1,1,'[1]','import','2026-11-17T02:30:45.120Z',0,0,NULL,0,1422807641);
INSERT INTO "cells" VALUES(1,2,'[1]','import','2026-11-17T02:30:45.120Z',0,0,NULL,0,1920034336);
INSERT INTO "cells" VALUES(1,3,'[2]','import','2026-11-17T02:30:45.120Z',0,0,NULL,0,3939919619);
INSERT INTO "cells" VALUES(1,4,'[2]','import','2026-11-17T02:30:45.120Z',0,0,NULL,0,3124567078);
INSERT INTO "cells" VALUES(2,1,'[3]','import','2026-11-17T02:30:45.120Z',0,0,NULL,0,2685844781);
INSERT INTO "cells" VALUES(2,2,'[4]','import','2026-11-17T02:30:45.120Z',0,0,NULL,0,2642565486);
INSERT INTO "cells" VALUES(2,3,'[4]','import','2026-11-17T02:30:45.120Z',0,0,0.2,0,2149010105);
INSERT INTO "cells" VALUES(2,4,'[3]','import','2026-11-17T02:30:45.120Z',0,0,NULL,0,3419922854);
INSERT INTO "cells" VALUES(2,5,'[3]','import','2026-11-17T02:30:45.120Z',0,0,NULL,0,3594711665);
INSERT INTO "cells" VALUES(3,1,'[5,6]','import','2026-11-17T02:30:45.120Z',0,0,NULL,0,144706114);
INSERT INTO "cells" VALUES(3,2,'[5]','import','2026-11-17T02:30:45.120Z',0,0,NULL,0,1055960844);
INSERT INTO "cells" VALUES(3,4,'[6]','import','2026-11-17T02:30:45.120Z',0,0,NULL,0,4139570442);
INSERT INTO "cells" VALUES(3,5,'[]','import','2026-11-17T02:30:45.120Z',0,0,NULL,0,1878353426);
INSERT INTO "cells" VALUES(4,1,'[7]','import','2026-11-17T02:30:45.120Z',0,0,NULL,0,2463524228);
INSERT INTO "cells" VALUES(4,2,'[[7,0.25],[8,0.75]]','import','2026-11-17T02:30:45.120Z',0,0,NULL,0,1400760282);
INSERT INTO "cells" VALUES(4,3,'[8]','import','2026-11-17T02:30:45.120Z',0,0,NULL,0,1435832781);
INSERT INTO "cells" VALUES(4,4,'[7,8]','import','2026-11-17T02:30:45.120Z',0,0,NULL,0,3556710614);
INSERT INTO "cells" VALUES(4,5,'[7]','import','2026-11-17T02:30:45.120Z',0,0,NULL,0,3833735896);
INSERT INTO "cells" VALUES(3,3,'[5,6]','ann','2026-11-17T02:30:45.172Z',1,0,NULL,4,1619457148);
INSERT INTO "cells" VALUES(1,5,'[2]','bob','2026-11-17T02:30:45.210Z',0,1,NULL,16,788966072);
CREATE TABLE comparisons (
	kind_id INTEGER NOT NULL, 
	pair TEXT NOT NULL, 
	person TEXT NOT NULL, 
	one_id INTEGER, 
	two_id INTEGER, 
	value TEXT, 
	at TEXT, 
	version INTEGER NOT NULL, 
	seal BIGINT, 
	PRIMARY KEY (kind_id, pair)
);
INSERT INTO "comparisons" VALUES(5,'["ann",1,4]','ann',1,4,'more','2026-11-18T01:23:50.562Z',21,557137960);
INSERT INTO "comparisons" VALUES(5,'["ann",1,3]','ann',1,3,NULL,NULL,26,2214257249);
INSERT INTO "comparisons" VALUES(5,'["bob",1,4]','bob',1,4,'less','2026-11-18T01:23:50.610Z',23,2892771489);
INSERT INTO "comparisons" VALUES(5,'["bob","a/1.jpg","b/豆腐.jpg"]','bob',1,3,'less','2026-11-18T01:23:50.629Z',24,1945085357);
INSERT INTO "comparisons" VALUES(5,'["ann",1,5]','ann',1,5,'skip','2026-11-18T01:23:50.646Z',25,3085875710);
CREATE TABLE edits (
	number INTEGER NOT NULL, 
	batch INTEGER NOT NULL, 
	target TEXT NOT NULL, 
	fine_id INTEGER, 
	kind_id INTEGER, 
	label_id INTEGER, 
	photo TEXT, 
	"before" TEXT, 
	"after" TEXT, 
	undoes INTEGER, 
	seal BIGINT, 
	PRIMARY KEY (number)
);
INSERT INTO "edits" VALUES(1,1,'graph',NULL,NULL,NULL,NULL,NULL,'{"fine": 5, "kinds": 5, "digest": "9fca78de3f3290b7543a912a1485d5b3fe9241cbcce1d3ea8ab444a2853b23c4"}',NULL,359615258);
INSERT INTO "edits" VALUES(2,2,'cell',3,3,NULL,NULL,'{"value":null,"by":null,"at":null,"resolved":0,"disagreement":0,"votes":{"ann":false}}','{"value":"[6]","by":"ann","at":"2026-11-17T02:30:45.145Z","resolved":0,"disagreement":0,"votes":{"ann":"[6]"}}',NULL,3755748123);
INSERT INTO "edits" VALUES(3,3,'cell',3,3,NULL,NULL,'{"value":"[6]","by":"ann","at":"2026-11-17T02:30:45.145Z","resolved":0,"disagreement":0,"votes":{"bob":false}}','{"value":"[5]","by":"bob","at":"2026-11-17T02:30:45.166Z","resolved":0,"disagreement":1,"votes":{"bob":"[5]"}}',NULL,651872287);
INSERT INTO "edits" VALUES(4,4,'cell',3,3,NULL,NULL,'{"value":"[5]","by":"bob","at":"2026-11-17T02:30:45.166Z","resolved":0,"disagreement":1,"votes":{}}','{"value":"[5,6]","by":"ann","at":"2026-11-17T02:30:45.172Z","resolved":1,"disagreement":0,"votes":{}}',NULL,240276123);
INSERT INTO "edits" VALUES(5,5,'cell',5,1,NULL,NULL,'{"value":null,"by":null,"at":null,"resolved":0,"disagreement":0,"votes":{"ann":false}}','{"value":"[1]","by":"ann","at":"2026-11-17T02:30:45.176Z","resolved":0,"disagreement":0,"votes":{"ann":"[1]"}}',NULL,1374257177);
INSERT INTO "edits" VALUES(6,6,'cell',5,1,NULL,NULL,'{"value":"[1]","by":"ann","at":"2026-11-17T02:30:45.176Z","resolved":0,"disagreement":0,"votes":{"ann":"[1]"}}','{"value":null,"by":"ann","at":"2026-11-17T02:30:45.182Z","resolved":0,"disagreement":0,"votes":{"ann":null}}',NULL,3420697364);
INSERT INTO "edits" VALUES(7,7,'cell',5,1,NULL,NULL,'{"value":null,"by":"ann","at":"2026-11-17T02:30:45.182Z","resolved":0,"disagreement":0,"votes":{"ann":null}}','{"value":"[1]","by":"ann","at":"2026-11-17T02:30:45.176Z","resolved":0,"disagreement":0,"votes":{"ann":"[1]"}}',6,899228038);
INSERT INTO "edits" VALUES(8,8,'label',NULL,1,9,NULL,'{"name":"crème brûlée","position":2,"removed":1}','{"name":"crème brûlée","position":2,"removed":0}',NULL,3173127154);
INSERT INTO "edits" VALUES(9,9,'cell',5,1,NULL,NULL,'{"value":"[1]","by":"ann","at":"2026-11-17T02:30:45.176Z","resolved":0,"disagreement":0,"votes":{"bob":false}}','{"value":"[9]","by":"bob","at":"2026-11-17T02:30:45.210Z","resolved":0,"disagreement":1,"votes":{"bob":"[9]"}}',NULL,3940504475);
INSERT INTO "edits" VALUES(10,10,'note',4,NULL,NULL,NULL,'{"text":"","by":null,"at":null}','{"text":"too hot, \"really\"\n豆腐","by":"ann","at":"2026-11-17T02:30:45.216Z"}',NULL,3553734254);
INSERT INTO "edits" VALUES(11,11,'photo',NULL,4,NULL,'kung pao @ A/1.jpg',NULL,'{"value":"[7]","fine":4,"by":"ann","at":"2026-11-17T02:30:45.223Z"}',NULL,3854981077);
INSERT INTO "edits" VALUES(12,12,'photo',NULL,3,NULL,'kung pao @ A/2.jpg',NULL,'{"value":"[6]","fine":4,"by":"bob","at":"2026-11-17T02:30:45.230Z"}',NULL,1815618351);
INSERT INTO "edits" VALUES(13,13,'fine',4,NULL,NULL,NULL,'{"name":"kung pao @ A","position":3,"removed":0}','{"name":"kung pao @ C","position":3,"removed":0}',NULL,4022198896);
INSERT INTO "edits" VALUES(14,14,'label',NULL,4,8,NULL,'{"name":"plate","position":1,"removed":0}','{"name":"large plate","position":1,"removed":0}',NULL,1040702035);
INSERT INTO "edits" VALUES(15,15,'label',NULL,1,9,NULL,'{"name":"crème brûlée","position":2,"removed":0}','{"name":"crème brûlée","position":2,"removed":1}',NULL,477903908);
INSERT INTO "edits" VALUES(16,15,'cell',5,1,NULL,NULL,'{"value":"[9]","by":"bob","at":"2026-11-17T02:30:45.210Z","resolved":0,"disagreement":1,"votes":{"bob":"[9]"}}','{"value":"[2]","by":"bob","at":"2026-11-17T02:30:45.210Z","resolved":0,"disagreement":1,"votes":{"bob":"[2]"}}',NULL,3590168804);
INSERT INTO "edits" VALUES(17,16,'fine',6,NULL,NULL,NULL,'{"name":"ramen @ A","position":5,"removed":1}','{"name":"ramen @ A","position":5,"removed":0}',NULL,2972978259);
INSERT INTO "edits" VALUES(18,17,'fine',2,NULL,NULL,NULL,'{"name":"mapo tofu @ B","position":1,"removed":0}','{"name":"mapo tofu @ B","position":1,"removed":1}',NULL,502063851);
INSERT INTO "edits" VALUES(19,18,'kind',NULL,5,NULL,NULL,'{"name":"heat","position":4,"mode":"one","prior":"number, SHU","removed":1}','{"name":"heat","position":4,"mode":"one","prior":"number, SHU","removed":0}',NULL,2063801629);
INSERT INTO "edits" VALUES(20,18,'label',NULL,5,10,NULL,'{"name":"1","position":0,"removed":1}','{"name":"1","position":0,"removed":0}',NULL,3759965184);
INSERT INTO "edits" VALUES(21,19,'comparison',NULL,5,NULL,'["ann",1,4]',NULL,'{"value":"more","one":1,"two":4,"at":"2026-11-18T01:23:50.562Z"}',NULL,3447791722);
INSERT INTO "edits" VALUES(22,20,'comparison',NULL,5,NULL,'["ann",1,3]',NULL,'{"value":"same","one":1,"two":3,"at":"2026-11-18T01:23:50.590Z"}',NULL,3454545485);
INSERT INTO "edits" VALUES(23,21,'comparison',NULL,5,NULL,'["bob",1,4]',NULL,'{"value":"less","one":1,"two":4,"at":"2026-11-18T01:23:50.610Z"}',NULL,2677102553);
INSERT INTO "edits" VALUES(24,22,'comparison',NULL,5,NULL,'["bob","a/1.jpg","b/豆腐.jpg"]',NULL,'{"value":"less","one":1,"two":3,"at":"2026-11-18T01:23:50.629Z"}',NULL,2810811023);
INSERT INTO "edits" VALUES(25,23,'comparison',NULL,5,NULL,'["ann",1,5]',NULL,'{"value":"skip","one":1,"two":5,"at":"2026-11-18T01:23:50.646Z"}',NULL,981861359);
INSERT INTO "edits" VALUES(26,24,'comparison',NULL,5,NULL,'["ann",1,3]','{"value":"same","one":1,"two":3,"at":"2026-11-18T01:23:50.590Z"}',NULL,22,3063827649);
CREATE TABLE fine (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	form TEXT NOT NULL, 
	folded TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	removed INTEGER NOT NULL, 
	known INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	seal BIGINT, 
	PRIMARY KEY (id)
);
INSERT INTO "fine" VALUES(1,'mapo tofu @ A','mapo tofu @ A','mapo tofu @ a',0,0,4,0,2714830275);
INSERT INTO "fine" VALUES(2,'mapo tofu @ B','mapo tofu @ B','mapo tofu @ b',1,1,4,18,2943701042);
INSERT INTO "fine" VALUES(3,'kung pao @ B','kung pao @ B','kung pao @ b',2,0,4,0,2255294959);
INSERT INTO "fine" VALUES(4,'kung pao @ C','kung pao @ C','kung pao @ c',3,0,4,13,45738549);
INSERT INTO "fine" VALUES(5,'crème brûlée @ A','crème brûlée @ A','creme brulee @ a',4,0,4,0,3826985556);
INSERT INTO "fine" VALUES(6,'ramen @ A','ramen @ A','ramen @ a',5,0,0,17,3549055507);
CREATE TABLE kinds (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	mode TEXT NOT NULL, 
	prior TEXT NOT NULL, 
	removed INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	seal BIGINT, 
	PRIMARY KEY (id)
);
INSERT INTO "kinds" VALUES(1,'dish',0,'one','frequency',0,0,385460466);
INSERT INTO "kinds" VALUES(2,'restaurant',1,'one','frequency',0,0,4246475101);
INSERT INTO "kinds" VALUES(3,'with',2,'all','frequency',0,0,3988337366);
INSERT INTO "kinds" VALUES(4,'served',3,'one','frequency',0,0,711998508);
INSERT INTO "kinds" VALUES(5,'heat',4,'one','number, SHU',0,19,1725767658);
CREATE TABLE labels (
	id INTEGER NOT NULL, 
	kind_id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	removed INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	seal BIGINT, 
	PRIMARY KEY (id)
);
INSERT INTO "labels" VALUES(1,1,'mapo tofu',0,0,0,305315926);
INSERT INTO "labels" VALUES(2,1,'kung pao',1,0,0,2674985759);
INSERT INTO "labels" VALUES(3,2,'A',0,0,0,767345743);
INSERT INTO "labels" VALUES(4,2,'B',1,0,0,3702955370);
INSERT INTO "labels" VALUES(5,3,'tofu',0,0,0,4155884030);
INSERT INTO "labels" VALUES(6,3,'pork',1,0,0,428669933);
INSERT INTO "labels" VALUES(7,4,'bowl',0,0,0,224616634);
INSERT INTO "labels" VALUES(8,4,'large plate',1,0,14,2170170394);
INSERT INTO "labels" VALUES(9,1,'crème brûlée',2,1,15,3042358361);
INSERT INTO "labels" VALUES(10,5,'1',0,0,20,3596333872);
CREATE TABLE meta (
	"key" TEXT NOT NULL, 
	value TEXT NOT NULL, 
	seal BIGINT, 
	PRIMARY KEY ("key")
);
INSERT INTO "meta" VALUES('schema','4',3823989444);
INSERT INTO "meta" VALUES('structure','6316397cad5de534',3766044881);
INSERT INTO "meta" VALUES('graph','9fca78de3f3290b7543a912a1485d5b3fe9241cbcce1d3ea8ab444a2853b23c4',3314479938);
INSERT INTO "meta" VALUES('suggestion','1',4166094925);
CREATE TABLE notes (
	fine_id INTEGER NOT NULL, 
	text TEXT NOT NULL, 
	"by" TEXT, 
	at TEXT, 
	version INTEGER NOT NULL, 
	seal BIGINT, 
	PRIMARY KEY (fine_id)
);
INSERT INTO "notes" VALUES(4,'too hot, "really"
豆腐','ann','2026-11-17T02:30:45.216Z',10,3327788137);
CREATE TABLE photo_labels (
	kind_id INTEGER NOT NULL, 
	photo TEXT NOT NULL, 
	fine_id INTEGER, 
	value TEXT, 
	"by" TEXT, 
	at TEXT, 
	version INTEGER NOT NULL, 
	seal BIGINT, 
	PRIMARY KEY (kind_id, photo)
);
INSERT INTO "photo_labels" VALUES(4,'kung pao @ A/1.jpg',4,'[7]','ann','2026-11-17T02:30:45.223Z',11,2725065958);
INSERT INTO "photo_labels" VALUES(3,'kung pao @ A/2.jpg',4,'[6]','bob','2026-11-17T02:30:45.230Z',12,1444950460);
CREATE TABLE seals (
	name TEXT NOT NULL, 
	part INTEGER NOT NULL, 
	count INTEGER NOT NULL, 
	total BIGINT NOT NULL, 
	seal BIGINT NOT NULL, 
	PRIMARY KEY (name, part)
);
INSERT INTO "seals" VALUES('log',0,24,26,3175419156);
INSERT INTO "seals" VALUES('meta',0,4,15070609188,2884605896);
INSERT INTO "seals" VALUES('kinds',0,5,11058039099,654879917);
INSERT INTO "seals" VALUES('labels',1,3,6022660046,1391437790);
INSERT INTO "seals" VALUES('cells',1,5,11196294746,1396222550);
INSERT INTO "seals" VALUES('labels',2,2,4470301113,3209622116);
INSERT INTO "seals" VALUES('cells',2,5,14492054891,1429068376);
INSERT INTO "seals" VALUES('labels',3,2,4584553963,100620977);
INSERT INTO "seals" VALUES('cells',3,5,8838047974,1085277699);
INSERT INTO "seals" VALUES('labels',4,2,2394787028,2429096471);
INSERT INTO "seals" VALUES('cells',4,5,12690563801,2624176456);
INSERT INTO "seals" VALUES('fine',0,6,15335605888,1471898175);
INSERT INTO "seals" VALUES('votes',3,2,3692648796,2268831154);
INSERT INTO "seals" VALUES('votes',1,2,5638484851,2227770054);
INSERT INTO "seals" VALUES('undone',0,2,2744057346,3728802318);
INSERT INTO "seals" VALUES('notes',0,1,3327788137,269626445);
INSERT INTO "seals" VALUES('photo_labels',4,1,2725065958,742608059);
INSERT INTO "seals" VALUES('photo_labels',3,1,1444950460,581812327);
INSERT INTO "seals" VALUES('suggestions',0,1,2475442038,3668598709);
INSERT INTO "seals" VALUES('beliefs',2,1,85117403,2636190980);
INSERT INTO "seals" VALUES('labels',5,1,3596333872,3072533739);
INSERT INTO "seals" VALUES('comparisons',5,5,10695127765,3614613518);
CREATE TABLE suggestions (
	number INTEGER NOT NULL, 
	kind_id INTEGER NOT NULL, 
	fine_id INTEGER NOT NULL, 
	value TEXT NOT NULL, 
	source TEXT NOT NULL, 
	score FLOAT NOT NULL, 
	reason TEXT NOT NULL, 
	seal BIGINT, 
	PRIMARY KEY (number)
);
INSERT INTO "suggestions" VALUES(1,2,6,'[3]','name',0.9,'the name',2475442038);
CREATE TABLE undone (
	edit INTEGER NOT NULL, 
	batch INTEGER NOT NULL, 
	seal BIGINT, 
	PRIMARY KEY (edit)
);
INSERT INTO "undone" VALUES(6,7,1193611842);
INSERT INTO "undone" VALUES(22,24,1550445504);
CREATE TABLE votes (
	kind_id INTEGER NOT NULL, 
	fine_id INTEGER NOT NULL, 
	person TEXT NOT NULL, 
	value TEXT, 
	at TEXT NOT NULL, 
	seal BIGINT, 
	PRIMARY KEY (kind_id, fine_id, person)
);
INSERT INTO "votes" VALUES(3,3,'ann','[6]','2026-11-17T02:30:45.148Z',1082057910);
INSERT INTO "votes" VALUES(3,3,'bob','[5]','2026-11-17T02:30:45.166Z',2610590886);
INSERT INTO "votes" VALUES(1,5,'ann','[1]','2026-11-17T02:30:45.189Z',2879781825);
INSERT INTO "votes" VALUES(1,5,'bob','[2]','2026-11-17T02:30:45.211Z',2758703026);
CREATE INDEX batches_by_person ON batches (person, number);
CREATE INDEX edits_by_fine ON edits (fine_id, kind_id, number);
CREATE INDEX edits_by_photo ON edits (photo, number);
CREATE INDEX ix_edits_batch ON edits (batch);
CREATE INDEX edits_by_kind ON edits (kind_id, number);
CREATE INDEX ix_undone_batch ON undone (batch);
CREATE INDEX ix_labels_kind_id ON labels (kind_id);
CREATE INDEX ix_fine_form ON fine (form);
CREATE INDEX ix_fine_name ON fine (name);
CREATE INDEX fine_by_position ON fine (position);
CREATE INDEX cells_of_low_confidence ON cells (fine_id) WHERE confidence < 0.5;
CREATE INDEX cells_by_fine ON cells (fine_id, kind_id);
CREATE INDEX cells_in_disagreement ON cells (fine_id) WHERE disagreement = 1;
CREATE INDEX votes_by_person ON votes (person, kind_id);
CREATE INDEX photo_labels_by_photo ON photo_labels (photo);
CREATE INDEX suggestions_by_fine ON suggestions (fine_id);
CREATE INDEX suggestions_by_cell ON suggestions (kind_id, fine_id);
CREATE INDEX comparisons_by_version ON comparisons (kind_id, version);
CREATE INDEX comparisons_by_one ON comparisons (one_id);
CREATE INDEX comparisons_by_two ON comparisons (two_id)
