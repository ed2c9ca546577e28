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
	PRIMARY KEY (number), 
	UNIQUE (edit_id)
);
INSERT INTO "batches" VALUES(1,'first','c9ba282bbc3b83d1052a83cd96d152bdf3fcb100d50ee8e29d22504110b9309c','import','2026-11-17T02:03:41.814Z','import','imported a graph of 5 classes and 5 kinds',1,1,NULL);
INSERT INTO "batches" VALUES(2,'edit 0','5bb4415e83c8565abf6542e668634d13d12c73d78cef76768d4c78fddc9f7712','ann','2026-11-17T02:03:41.832Z','decide','decided ''kung pao @ B'', ''with''',1,2,NULL);
INSERT INTO "batches" VALUES(3,'b1','e99fd8aec54f605831b1f0371c129996c4f72e179804062962a5d319433f5452','bob','2026-11-17T02:03:41.848Z','decide','decided ''kung pao @ B'', ''with''',1,3,NULL);
INSERT INTO "batches" VALUES(4,'edit 1','340417693cd8e0b8343f92692cfb4ed0382ec7f319607fab0ae24b89e81914f9','ann','2026-11-17T02:03:41.855Z','resolve','settled ''kung pao @ B'', ''with''',1,4,NULL);
INSERT INTO "batches" VALUES(5,'edit 2','4dae7a6438e302b0af0f1c457e0f06b498a0ef50a713475bd235e9fafd4dec03','ann','2026-11-17T02:03:41.858Z','decide','decided ''crème brûlée @ A'', ''dish''',1,5,NULL);
INSERT INTO "batches" VALUES(6,'edit 3','0e971abdb338915e6bcf06b3b457c437b4440b57dba09611c956100f506fead3','ann','2026-11-17T02:03:41.867Z','decide','decided ''crème brûlée @ A'', ''dish''',1,6,NULL);
INSERT INTO "batches" VALUES(7,'edit 4','e63c80eec6fd34a14904e85b6a559f3a4c4545ecd706a1ea884af72d38103a89','ann','2026-11-17T02:03:41.876Z','undo','undid: decided ''crème brûlée @ A'', ''dish''',1,7,6);
INSERT INTO "batches" VALUES(8,'edit 5','757c3bd42a17044bc2d959253390dabb62fc5a43d3ad7c328d151d3557588172','ann','2026-11-17T02:03:41.887Z','add_label','added the label ''crème brûlée'' to the kind ''dish''',1,8,NULL);
INSERT INTO "batches" VALUES(9,'b2','a07ff5765a28f53e0f4935d0680d1adcb6c004e683379d6dcfdbadc0885d3973','bob','2026-11-17T02:03:41.892Z','decide','decided ''crème brûlée @ A'', ''dish''',1,9,NULL);
INSERT INTO "batches" VALUES(10,'edit 6','ae006edd14e433d629c6cd3246a792c563829cb2ace2c0e2e17d8aa47758eeba','ann','2026-11-17T02:03:41.903Z','note','changed the note of ''kung pao @ A''',1,10,NULL);
INSERT INTO "batches" VALUES(11,'edit 7','1616d97673bc5e8f37f8ba5ebbd831a3c86dbaaf3f6208d1d503d4da00f1712b','ann','2026-11-17T02:03:41.911Z','photo','labelled the photo ''kung pao @ A/1.jpg'', ''served''',1,11,NULL);
INSERT INTO "batches" VALUES(12,'b3','d8511054cd3e6aa38e1dbc9a1679529fe91a5d7b8f5d41457f4f5f192ecdf833','bob','2026-11-17T02:03:41.918Z','photo','labelled the photo ''kung pao @ A/2.jpg'', ''with''',1,12,NULL);
INSERT INTO "batches" VALUES(13,'edit 8','46c8bb6533a8b507dd3467f202d86c0a5c31135e95778f7ef014aacfad131d4f','ann','2026-11-17T02:03:41.923Z','rename_fine','renamed the class ''kung pao @ A'' to ''kung pao @ C''',1,13,NULL);
INSERT INTO "batches" VALUES(14,'edit 9','67f73b05b2e8808479c232245c308c8fa44cd4e9274cfbf29df6a23fca57765e','ann','2026-11-17T02:03:41.930Z','rename_label','renamed the label ''plate'' of kind ''served'' to ''large plate''',1,14,NULL);
INSERT INTO "batches" VALUES(15,'edit 10','da9dea829ee05fb86c8410984e92afc7f2592dda3cc038c24676909a4b76a91c','ann','2026-11-17T02:03:41.936Z','merge_labels','merged ''kung pao'', ''crème brûlée'' of kind ''dish'' into ''kung pao''',2,16,NULL);
INSERT INTO "batches" VALUES(16,'edit 11','3bc5780056fabc78a837dc652adf94083d992083ecdcd38a1639436b4b65a126','ann','2026-11-17T02:03:41.943Z','add_fine','added the class ''ramen @ A''',1,17,NULL);
INSERT INTO "batches" VALUES(17,'edit 12','b932de20ebf130db7414e5350b109d66fed885c808f5f0fc5c7c8376d755f9f4','ann','2026-11-17T02:03:41.951Z','remove_fine','removed the class ''mapo tofu @ B''',1,18,NULL);
CREATE TABLE beliefs (
	kind_id INTEGER NOT NULL, 
	fine_id INTEGER NOT NULL, 
	probabilities TEXT NOT NULL, 
	PRIMARY KEY (kind_id, fine_id)
);
INSERT INTO "beliefs" VALUES(2,3,'{"3":0.8,"4":0.2}');
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
	PRIMARY KEY (kind_id, fine_id)
);
INSERT INTO "cells" VALUES(1,1,'[1]','import','2026-11-17T02:03:41.814Z',0,0,NULL,0);
INSERT INTO "cells" VALUES(1,2,'[1]','import','2026-11-17T02:03:41.814Z',0,0,NULL,0);
INSERT INTO "cells" VALUES(1,3,'[2]','import','2026-11-17T02:03:41.814Z',0,0,NULL,0);
INSERT INTO "cells" VALUES(1,4,'[2]','import','2026-11-17T02:03:41.814Z',0,0,NULL,0);
INSERT INTO "cells" VALUES(2,1,'[3]','import','2026-11-17T02:03:41.814Z',0,0,NULL,0);
INSERT INTO "cells" VALUES(2,2,'[4]','import','2026-11-17T02:03:41.814Z',0,0,NULL,0);
INSERT INTO "cells" VALUES(2,3,'[4]','import','2026-11-17T02:03:41.814Z',0,0,0.2,0);
INSERT INTO "cells" VALUES(2,4,'[3]','import','2026-11-17T02:03:41.814Z',0,0,NULL,0);
INSERT INTO "cells" VALUES(2,5,'[3]','import','2026-11-17T02:03:41.814Z',0,0,NULL,0);
INSERT INTO "cells" VALUES(3,1,'[5,6]','import','2026-11-17T02:03:41.814Z',0,0,NULL,0);
INSERT INTO "cells" VALUES(3,2,'[5]','import','2026-11-17T02:03:41.814Z',0,0,NULL,0);
INSERT INTO "cells" VALUES(3,4,'[6]','import','2026-11-17T02:03:41.814Z',0,0,NULL,0);
INSERT INTO "cells" VALUES(3,5,'[]','import','2026-11-17T02:03:41.814Z',0,0,NULL,0);
INSERT INTO "cells" VALUES(4,1,'[7]','import','2026-11-17T02:03:41.814Z',0,0,NULL,0);
INSERT INTO "cells" VALUES(4,2,'[[7,0.25],[8,0.75]]','import','2026-11-17T02:03:41.814Z',0,0,NULL,0);
INSERT INTO "cells" VALUES(4,3,'[8]','import','2026-11-17T02:03:41.814Z',0,0,NULL,0);
INSERT INTO "cells" VALUES(4,4,'[7,8]','import','2026-11-17T02:03:41.814Z',0,0,NULL,0);
INSERT INTO "cells" VALUES(4,5,'[7]','import','2026-11-17T02:03:41.814Z',0,0,NULL,0);
INSERT INTO "cells" VALUES(3,3,'[5,6]','ann','2026-11-17T02:03:41.855Z',1,0,NULL,4);
INSERT INTO "cells" VALUES(1,5,'[2]','bob','2026-11-17T02:03:41.891Z',0,1,NULL,16);
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
	PRIMARY KEY (number)
);
INSERT INTO "edits" VALUES(1,1,'graph',NULL,NULL,NULL,NULL,NULL,'{"fine": 5, "kinds": 5, "digest": "9fca78de3f3290b7543a912a1485d5b3fe9241cbcce1d3ea8ab444a2853b23c4"}',NULL);
INSERT INTO "edits" VALUES(2,2,'cell',3,3,NULL,NULL,'{"value":null,"by":null,"at":null,"resolved":0,"disagreement":0,"votes":{"ann":false}}','{"value":"[6]","by":"ann","at":"2026-11-17T02:03:41.830Z","resolved":0,"disagreement":0,"votes":{"ann":"[6]"}}',NULL);
INSERT INTO "edits" VALUES(3,3,'cell',3,3,NULL,NULL,'{"value":"[6]","by":"ann","at":"2026-11-17T02:03:41.830Z","resolved":0,"disagreement":0,"votes":{"bob":false}}','{"value":"[5]","by":"bob","at":"2026-11-17T02:03:41.848Z","resolved":0,"disagreement":1,"votes":{"bob":"[5]"}}',NULL);
INSERT INTO "edits" VALUES(4,4,'cell',3,3,NULL,NULL,'{"value":"[5]","by":"bob","at":"2026-11-17T02:03:41.848Z","resolved":0,"disagreement":1,"votes":{}}','{"value":"[5,6]","by":"ann","at":"2026-11-17T02:03:41.855Z","resolved":1,"disagreement":0,"votes":{}}',NULL);
INSERT INTO "edits" VALUES(5,5,'cell',5,1,NULL,NULL,'{"value":null,"by":null,"at":null,"resolved":0,"disagreement":0,"votes":{"ann":false}}','{"value":"[1]","by":"ann","at":"2026-11-17T02:03:41.858Z","resolved":0,"disagreement":0,"votes":{"ann":"[1]"}}',NULL);
INSERT INTO "edits" VALUES(6,6,'cell',5,1,NULL,NULL,'{"value":"[1]","by":"ann","at":"2026-11-17T02:03:41.858Z","resolved":0,"disagreement":0,"votes":{"ann":"[1]"}}','{"value":null,"by":"ann","at":"2026-11-17T02:03:41.867Z","resolved":0,"disagreement":0,"votes":{"ann":null}}',NULL);
INSERT INTO "edits" VALUES(7,7,'cell',5,1,NULL,NULL,'{"value":null,"by":"ann","at":"2026-11-17T02:03:41.867Z","resolved":0,"disagreement":0,"votes":{"ann":null}}','{"value":"[1]","by":"ann","at":"2026-11-17T02:03:41.858Z","resolved":0,"disagreement":0,"votes":{"ann":"[1]"}}',6);
INSERT INTO "edits" VALUES(8,8,'label',NULL,1,9,NULL,'{"name":"crème brûlée","position":2,"removed":1}','{"name":"crème brûlée","position":2,"removed":0}',NULL);
INSERT INTO "edits" VALUES(9,9,'cell',5,1,NULL,NULL,'{"value":"[1]","by":"ann","at":"2026-11-17T02:03:41.858Z","resolved":0,"disagreement":0,"votes":{"bob":false}}','{"value":"[9]","by":"bob","at":"2026-11-17T02:03:41.891Z","resolved":0,"disagreement":1,"votes":{"bob":"[9]"}}',NULL);
INSERT INTO "edits" VALUES(10,10,'note',4,NULL,NULL,NULL,'{"text":"","by":null,"at":null}','{"text":"too hot, \"really\"\n豆腐","by":"ann","at":"2026-11-17T02:03:41.903Z"}',NULL);
INSERT INTO "edits" VALUES(11,11,'photo',NULL,4,NULL,'kung pao @ A/1.jpg',NULL,'{"value":"[7]","fine":4,"by":"ann","at":"2026-11-17T02:03:41.911Z"}',NULL);
INSERT INTO "edits" VALUES(12,12,'photo',NULL,3,NULL,'kung pao @ A/2.jpg',NULL,'{"value":"[6]","fine":4,"by":"bob","at":"2026-11-17T02:03:41.918Z"}',NULL);
INSERT INTO "edits" VALUES(13,13,'fine',4,NULL,NULL,NULL,'{"name":"kung pao @ A","position":3,"removed":0}','{"name":"kung pao @ C","position":3,"removed":0}',NULL);
INSERT INTO "edits" VALUES(14,14,'label',NULL,4,8,NULL,'{"name":"plate","position":1,"removed":0}','{"name":"large plate","position":1,"removed":0}',NULL);
INSERT INTO "edits" VALUES(15,15,'label',NULL,1,9,NULL,'{"name":"crème brûlée","position":2,"removed":0}','{"name":"crème brûlée","position":2,"removed":1}',NULL);
INSERT INTO "edits" VALUES(16,15,'cell',5,1,NULL,NULL,'{"value":"[9]","by":"bob","at":"2026-11-17T02:03:41.891Z","resolved":0,"disagreement":1,"votes":{"bob":"[9]"}}','{"value":"[2]","by":"bob","at":"2026-11-17T02:03:41.891Z","resolved":0,"disagreement":1,"votes":{"bob":"[2]"}}',NULL);
INSERT INTO "edits" VALUES(17,16,'fine',6,NULL,NULL,NULL,'{"name":"ramen @ A","position":5,"removed":1}','{"name":"ramen @ A","position":5,"removed":0}',NULL);
INSERT INTO "edits" VALUES(18,17,'fine',2,NULL,NULL,NULL,'{"name":"mapo tofu @ B","position":1,"removed":0}','{"name":"mapo tofu @ B","position":1,"removed":1}',NULL);
CREATE TABLE fine (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	form TEXT NOT NULL, 
	folded TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	removed INTEGER NOT NULL, 
	known INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "fine" VALUES(1,'mapo tofu @ A','mapo tofu @ A','mapo tofu @ a',0,0,4,0);
INSERT INTO "fine" VALUES(2,'mapo tofu @ B','mapo tofu @ B','mapo tofu @ b',1,1,4,18);
INSERT INTO "fine" VALUES(3,'kung pao @ B','kung pao @ B','kung pao @ b',2,0,4,0);
INSERT INTO "fine" VALUES(4,'kung pao @ C','kung pao @ C','kung pao @ c',3,0,4,13);
INSERT INTO "fine" VALUES(5,'crème brûlée @ A','crème brûlée @ A','creme brulee @ a',4,0,4,0);
INSERT INTO "fine" VALUES(6,'ramen @ A','ramen @ A','ramen @ a',5,0,0,17);
CREATE TABLE kinds (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	mode TEXT NOT NULL, 
	prior TEXT NOT NULL, 
	removed INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "kinds" VALUES(1,'dish',0,'one','frequency',0,0);
INSERT INTO "kinds" VALUES(2,'restaurant',1,'one','frequency',0,0);
INSERT INTO "kinds" VALUES(3,'with',2,'all','frequency',0,0);
INSERT INTO "kinds" VALUES(4,'served',3,'one','frequency',0,0);
CREATE TABLE labels (
	id INTEGER NOT NULL, 
	kind_id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	removed INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "labels" VALUES(1,1,'mapo tofu',0,0,0);
INSERT INTO "labels" VALUES(2,1,'kung pao',1,0,0);
INSERT INTO "labels" VALUES(3,2,'A',0,0,0);
INSERT INTO "labels" VALUES(4,2,'B',1,0,0);
INSERT INTO "labels" VALUES(5,3,'tofu',0,0,0);
INSERT INTO "labels" VALUES(6,3,'pork',1,0,0);
INSERT INTO "labels" VALUES(7,4,'bowl',0,0,0);
INSERT INTO "labels" VALUES(8,4,'large plate',1,0,14);
INSERT INTO "labels" VALUES(9,1,'crème brûlée',2,1,15);
CREATE TABLE meta (
	"key" TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "meta" VALUES('schema','2');
INSERT INTO "meta" VALUES('structure','2b7c0f1e56f2f592');
INSERT INTO "meta" VALUES('graph','9fca78de3f3290b7543a912a1485d5b3fe9241cbcce1d3ea8ab444a2853b23c4');
INSERT INTO "meta" VALUES('suggestion','1');
CREATE TABLE notes (
	fine_id INTEGER NOT NULL, 
	text TEXT NOT NULL, 
	"by" TEXT, 
	at TEXT, 
	version INTEGER NOT NULL, 
	PRIMARY KEY (fine_id)
);
INSERT INTO "notes" VALUES(4,'too hot, "really"
豆腐','ann','2026-11-17T02:03:41.903Z',10);
CREATE TABLE photo_labels (
	kind_id INTEGER NOT NULL, 
	photo TEXT NOT NULL, 
	fine_id INTEGER, 
	value TEXT, 
	"by" TEXT, 
	at TEXT, 
	version INTEGER NOT NULL, 
	PRIMARY KEY (kind_id, photo)
);
INSERT INTO "photo_labels" VALUES(4,'kung pao @ A/1.jpg',4,'[7]','ann','2026-11-17T02:03:41.911Z',11);
INSERT INTO "photo_labels" VALUES(3,'kung pao @ A/2.jpg',4,'[6]','bob','2026-11-17T02:03:41.918Z',12);
CREATE TABLE suggestions (
	number INTEGER NOT NULL, 
	kind_id INTEGER NOT NULL, 
	fine_id INTEGER NOT NULL, 
	value TEXT NOT NULL, 
	source TEXT NOT NULL, 
	score FLOAT NOT NULL, 
	reason TEXT NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "suggestions" VALUES(1,2,6,'[3]','name',0.9,'the name');
CREATE TABLE undone (
	edit INTEGER NOT NULL, 
	batch INTEGER NOT NULL, 
	PRIMARY KEY (edit)
);
INSERT INTO "undone" VALUES(6,7);
CREATE TABLE votes (
	kind_id INTEGER NOT NULL, 
	fine_id INTEGER NOT NULL, 
	person TEXT NOT NULL, 
	value TEXT, 
	at TEXT NOT NULL, 
	PRIMARY KEY (kind_id, fine_id, person)
);
INSERT INTO "votes" VALUES(3,3,'ann','[6]','2026-11-17T02:03:41.832Z');
INSERT INTO "votes" VALUES(3,3,'bob','[5]','2026-11-17T02:03:41.848Z');
INSERT INTO "votes" VALUES(1,5,'ann','[1]','2026-11-17T02:03:41.876Z');
INSERT INTO "votes" VALUES(1,5,'bob','[2]','2026-11-17T02:03:41.892Z');
CREATE INDEX batches_by_person ON batches (person, number);
CREATE INDEX ix_edits_batch ON edits (batch);
CREATE INDEX edits_by_fine ON edits (fine_id, kind_id, number);
CREATE INDEX edits_by_kind ON edits (kind_id, number);
CREATE INDEX edits_by_photo ON edits (photo, number);
CREATE INDEX ix_undone_batch ON undone (batch);
CREATE INDEX ix_labels_kind_id ON labels (kind_id);
CREATE INDEX ix_fine_form ON fine (form);
CREATE INDEX fine_by_position ON fine (position);
CREATE INDEX ix_fine_name ON fine (name);
CREATE INDEX cells_in_disagreement ON cells (fine_id) WHERE disagreement = 1;
CREATE INDEX cells_of_low_confidence ON cells (fine_id) WHERE confidence < 0.5;
CREATE INDEX cells_by_fine ON cells (fine_id, kind_id);
CREATE INDEX votes_by_person ON votes (person, kind_id);
CREATE INDEX photo_labels_by_photo ON photo_labels (photo);
CREATE INDEX suggestions_by_cell ON suggestions (kind_id, fine_id);
CREATE INDEX suggestions_by_fine ON suggestions (fine_id)
