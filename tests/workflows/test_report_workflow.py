"""Reports as files: what is in them, that they come out the same again, and what is refused."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from evaluation.tiny_runs import make_photos, register
from evaluation.tiny_runs import make_run as make_trained_run
from finegraph.data.sources import read_samples
from finegraph.errors import InputError, RunFolderError, UnknownNameError
from finegraph.evaluation.results import EvaluationResult
from finegraph.graph.number import Number
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.reports.plots import plot_style
from finegraph.reports.run_results import find_evaluation, read_run
from finegraph.workflows.evaluate import evaluate_run
from finegraph.workflows.indexing.similar_photos import FeatureSettings, similar_of_photos
from finegraph.workflows.report import write_report
from reports.made_up_runs import made_up_graph, make_run


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    graph = made_up_graph()
    return [
        make_run(folder / head, graph, 80, seed=seed, head=head) for seed, head in ((0, "softmax"), (1, "bipartite"))
    ]


@pytest.fixture(scope="module")
def text(two):
    return write_report(two, two[0].parent / "both.html") and (two[0].parent / "both.html").read_text("utf-8")


def test_one_file_that_asks_nothing_of_a_network(text):
    assert "Content-Security-Policy" in text
    policy = re.search(r'Security-Policy" content="([^"]+)"', text)[1]
    assert "default-src &#39;none&#39;" in policy
    assert "unsafe" not in policy
    assert not re.findall(r'(?:src|href)="(?!data:|#)', text)
    assert not re.findall(r"<[a-z][^>]*\s(?:style|on\w+)=", text)
    assert text.count("<script") == 2
    assert re.findall(r"url\(", text) == []


def test_the_hashes_are_those_of_style_and_script(text):
    import base64
    import hashlib

    for tag in ("style", "script"):
        content = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert len(content) == 1
        assert base64.b64encode(hashlib.sha256(content[0].encode()).digest()).decode() in text.split("<style>")[0]


def test_every_section_is_there(text):
    ids = re.findall(r'<section id="(\w+)"', text)
    assert " ".join(ids) == (
        "summary accuracy examples training confusions classes calibration sure explanations graph facts"
    )
    assert re.findall(r'<li><a href="#(\w+)"', text) == ids
    assert "There are 6 photos of each sort." in text
    assert "bipartite is right, softmax is wrong" in text
    assert "The random ones exclude those shown above them." in text
    assert "Similar training photos" in text
    assert "95 % intervals" in text


@pytest.fixture
def _coarse_plots(monkeypatch):
    """Plots of few dots: what they show is the same."""
    monkeypatch.setattr(plot_style, "DPI", 40)


PLOTS = [
    f"{name}.{form}"
    for name in ("accuracy", "calibration", "confusion", "examples", "sure", "training")
    for form in ("png", "svg")
]


def test_the_same_files_give_the_same_bytes(two, text, tmp_path):
    copies = [shutil.copytree(run, tmp_path / "copy" / run.name) for run in two]
    write_report(copies, tmp_path / "b.html")
    assert (tmp_path / "b.html").read_text("utf-8") == text


@pytest.mark.slow
@pytest.mark.usefixtures("_coarse_plots")
def test_the_former_name_of_plots_still_works(two, tmp_path):
    with pytest.warns(DeprecationWarning, match="figures is called plots now"):
        written = write_report(two[:1], tmp_path / "r.html", figures=tmp_path / "drawn")
    assert written.plots
    assert all(path.startswith(str(tmp_path / "drawn")) for path in written.plots)


@pytest.mark.deep
@pytest.mark.usefixtures("_coarse_plots")
def test_the_same_files_give_the_same_plots(two, tmp_path):
    for name in ("a", "b"):
        write_report(two, tmp_path / f"{name}.html", plots=tmp_path / name)
    for name in PLOTS:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_the_default_place_is_in_the_first_run(two, tmp_path):
    copy = shutil.copytree(two[0], tmp_path / "copy")
    written = write_report([copy])
    assert written.path == str(copy / "report.html")
    assert (written.runs, written.studies, written.photos) == (("copy",), (), 80)
    assert (copy / "report.html").stat().st_size == written.size


def test_names_that_are_markup_are_text(tmp_path):
    from finegraph.graph import LabelGraph

    evil = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a & b' {{ 7*7 }}", "\u202eאבג </style>"]
    table = {name: {"<b>kind</b>": f"</script>{number % 2}"} for number, name in enumerate(evil)}
    run = make_run(tmp_path / "run", LabelGraph.from_table(table), 20)
    write_report([run], tmp_path / "r.html", title="<i>title</i>")
    text = (tmp_path / "r.html").read_text("utf-8")
    page = text.split('id="data">')[0]
    for raw in ("<script>alert", "<img src=x", "<b>kind", "<i>title", "</script>0"):
        assert raw not in page
        assert raw not in text.split('id="data">')[1].split("</script>")[0]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "49" not in re.findall(r"<bdi>(a &amp; b[^<]*)</bdi>", page)[0]


@pytest.mark.deep
@pytest.mark.usefixtures("_coarse_plots")
@pytest.mark.parametrize(("fine", "kinds", "binary"), [(6, (), 0), (2, (("kind", 2),), 0), (40, (("kind", 35),), 20)])
def test_graphs_of_many_forms(tmp_path, fine, kinds, binary):
    run = make_run(tmp_path / "run", made_up_graph(fine, kinds, binary), 30, similar=False)
    write_report([run], tmp_path / "r.html", plots=tmp_path / "plots" if fine == 6 else None)
    if fine == 6:
        assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == PLOTS
    assert "Similar training photos are left out" in (tmp_path / "r.html").read_text("utf-8")


@pytest.mark.deep
@pytest.mark.usefixtures("_coarse_plots")
def test_numbers_have_a_plot(tmp_path):
    graph = made_up_graph(6, (), 0)
    for name, unit, scale in (("price $", "EUR", "linear"), ("mass", "g", "log")):
        graph = graph.with_number(Number.from_values(name, [1, 2, 5, 20, 50, 100], unit=unit, scale=scale))
    runs = [make_run(tmp_path / name, graph, 30, seed=seed) for seed, name in enumerate(("one", "two"))]
    write_report(runs, tmp_path / "r.html", plots=tmp_path / "plots")
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == sorted([*PLOTS, "values.png", "values.svg"])
    drawn = (tmp_path / "plots/values.svg").read_text("utf-8")
    for text in ("price $, EUR", "mass, g", "one: mass", "two: mass", "values inside, %"):
        assert f"<!-- {text} -->" in drawn.replace(r"\$", "$"), text
    per_plot = drawn.count("<use ")
    write_report(runs[:1], tmp_path / "r.html", plots=tmp_path / "alone")
    assert (tmp_path / "alone/values.svg").read_text("utf-8").count("<use ") < per_plot - 30


class TestStudy:
    HEAD = "head,kinds,amount,seed,split,views,box,metric,value\n"
    SUMMARY = (
        "head,kinds,amount,split,views,box,metric,mean,sd,draws,low,high,interval,difference,difference_low,"
        "difference_high,verdict\n"
        "softmax,,1,test,1,no,top1,0.40,0.01,3,0.38,0.42,t over draws,,,,\n"
        "softmax,,all,test,1,no,top1,0.70,0.01,3,0.68,0.72,t over draws,,,,\n"
        "bipartite,both,1,test,1,no,top1,0.45,0.01,3,0.43,0.47,t over draws,0.05,0.03,0.07,better\n"
        "bipartite,both,all,test,1,no,top1,0.71,0.01,3,0.69,0.73,t over draws,0.01,-0.01,0.03,no difference\n"
        "softmax,,all,train,1,no,seconds_fit,0.5,0.0,3,0.5,0.5,t over draws,,,,\n"
        "softmax,,all,train,1,no,ms_forward,0.41,0.0,3,0.4,0.4,t over draws,,,,\n"
        "softmax,,all,train,1,no,ms_backward,0.52,0.0,3,0.5,0.5,t over draws,,,,\n"
        "bipartite,both,all,train,1,no,ms_forward,1.23,0.0,3,1.2,1.2,t over draws,,,,\n"
        "bipartite,both,all,train,1,no,ms_backward,0.74,0.0,3,0.7,0.7,t over draws,,,,\n"
    )

    def make(self, folder, summary=SUMMARY):
        folder.mkdir()
        (folder / "results.csv").write_text(self.HEAD)
        (folder / "summary.csv").write_text(summary)
        return folder

    def test_a_study_alone(self, tmp_path):
        written = write_report([self.make(tmp_path / "amounts")])
        text = (tmp_path / "amounts/report.html").read_text("utf-8")
        assert written.studies == ("amounts",)
        assert re.findall(r'<section id="(\w+)"', text) == ["study"]
        assert "Top 1 on test for 1, all photos: softmax 40.0 %, 70.0 %; bipartite (both) 45.0 %, 71.0 %" in text
        assert "+5.0 better" in text
        assert "+1.0 cannot tell" in text  # as an earlier version wrote it: no difference
        assert "no difference" not in text
        assert "0.50 s" in text
        assert "forward and backward, all photos: softmax 0.41 and 0.52; bipartite (both) 1.23 and 0.74" in text
        assert '<script type="application/json" id="data">null</script>' in text

    def test_it_speaks_in_the_words_of_the_study(self, tmp_path):
        folder = self.make(tmp_path / "study-7")
        (folder / "study.toml").write_text('title = "Menu <spring>"\ndata = "menu.csv"\n')
        write_report([folder])
        text = (folder / "report.html").read_text("utf-8")
        assert "<h1><bdi>Menu &lt;spring&gt;</bdi></h1>" in text
        assert "softmax and bipartite, with the kinds both, trained on 1 photo per class and all photos" in text
        captions = re.findall(r"<figcaption><bdi>([^<]+)</bdi></figcaption>", text)
        assert captions == [
            "Top 1 of softmax and bipartite on test, against training photos per class",
            "Points of top 1 from softmax on test, all photos",
        ]
        assert "all photos: bipartite (both) +1.0 cannot tell" in text
        assert 'class="hollow"' in text

    def test_a_title_that_is_no_text_of_a_study(self, tmp_path):
        folder = self.make(tmp_path / "s")
        (folder / "study.toml").write_text("title = [\n")
        with pytest.raises(RunFolderError, match="the settings of the study cannot be read"):
            write_report([folder])

    @pytest.mark.deep
    def test_its_plots_have_its_title(self, tmp_path):
        folder = self.make(tmp_path / "s")
        (folder / "study.toml").write_text('title = "Menu in spring"\n')
        write_report([folder], plots=tmp_path / "plots")
        assert "Menu in spring: top-1 on test" in (tmp_path / "plots/accuracy-test.svg").read_text("utf-8")

    def test_times_are_those_of_the_first_way_to_cut_photos(self, tmp_path):
        more = "".join(
            f"softmax,,all,train,1,yes,{metric},9.87,0.0,3,9.8,9.9,t over draws,,,,\n"
            for metric in ("seconds_fit", "ms_forward", "ms_backward")
        )
        write_report([self.make(tmp_path / "boxes", self.SUMMARY + more)])
        text = (tmp_path / "boxes/report.html").read_text("utf-8")
        assert "Seconds of a fit, all photos: softmax 0.50" in text
        assert "softmax 0.41 and 0.52" in text
        assert "9.87" not in text

    @pytest.mark.deep
    def test_what_means_are_over(self, tmp_path):
        one_draw = self.SUMMARY.replace("t over draws", "bootstrap over photos")
        both = self.SUMMARY.replace("t over draws", "bootstrap over photos", 1)
        words = {}
        for name, summary in (("draws", self.SUMMARY), ("one", one_draw), ("both", both)):
            write_report([self.make(tmp_path / name, summary)])
            words[name] = re.findall(r"(\w+ \w+ \w+ [^<>]*) In the pill", (tmp_path / name / "report.html").read_text())
        assert words["draws"] == ["Means over draws with 95 % intervals."]
        assert words["one"] == [
            "One draw of training photos; 95 % intervals are a bootstrap over the evaluated photos."
        ]
        assert words["both"][0].startswith("Means over draws with 95 % intervals. If there is one draw, they are")

    def test_a_study_and_runs(self, two, tmp_path):
        written = write_report([*two, self.make(tmp_path / "amounts")], tmp_path / "r.html")
        assert (written.runs, written.studies) == (("softmax", "bipartite"), ("amounts",))

    @pytest.mark.deep
    def test_its_plots(self, tmp_path):
        written = write_report([self.make(tmp_path / "amounts")], plots=tmp_path / "plots")
        assert (tmp_path / "plots/accuracy-test.svg").exists()
        assert str(tmp_path / "plots/time.png") in written.plots

    def test_a_summary_without_its_columns(self, tmp_path):
        folder = self.make(tmp_path / "s", "head,mean\nsoftmax,1\n")
        with pytest.raises(RunFolderError, match=r"summary.csv: expected the columns .*, without kinds, amount"):
            write_report([folder])


class TestRefusals:
    def test_no_evaluation(self, tmp_path, two):
        (tmp_path / "empty").mkdir()
        with pytest.raises(RunFolderError, match="there are no evaluations in this run; evaluate it first"):
            write_report([tmp_path / "empty"])
        with pytest.raises(RunFolderError, match="there is no such folder"):
            write_report([tmp_path / "nowhere"])
        with pytest.raises(UnknownNameError, match=r"unknown evaluation 'tets' in .*did you mean 'test'"):
            write_report(two, tmp_path / "r.html", evaluation="tets")
        with pytest.raises(InputError, match="got the same one twice"):
            write_report([two[0], two[0]])
        with pytest.raises(InputError, match="expected at least one run"):
            write_report([])

    def test_an_evaluation_without_details(self, two, tmp_path):
        copy = shutil.copytree(two[0], tmp_path / "copy")
        (copy / "evaluations/test/details.json").unlink()
        with pytest.raises(RunFolderError, match="without what a report shows of single photos; evaluate again"):
            write_report([copy])
        with pytest.raises(RunFolderError, match="without what a report shows of single photos; evaluate again"):
            write_report([copy], evaluation="test")

    @pytest.mark.parametrize("name", ["details.safetensors", "thumbnails.safetensors", "graph.json"])
    def test_damaged_files(self, two, tmp_path, name):
        copy = shutil.copytree(two[0], tmp_path / "copy")
        path = copy / "evaluations/test" / name
        path.write_bytes(path.read_bytes()[:-40])
        with pytest.raises(RunFolderError, match="evaluate again"):
            write_report([copy])

    def test_a_newer_version(self, two, tmp_path):
        copy = shutil.copytree(two[0], tmp_path / "copy")
        path = copy / "evaluations/test/details.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "version": 2}))
        with pytest.raises(RunFolderError, match="expected version 1, got 2"):
            write_report([copy])

    def test_a_graph_of_another_evaluation(self, two, tmp_path):
        copy = shutil.copytree(two[0], tmp_path / "copy")
        made_up_graph(9).write(copy / "evaluations/test/graph.json")
        with pytest.raises(RunFolderError, match="do not belong together; evaluate again"):
            write_report([copy])

    def test_a_place_that_cannot_be_written(self, two, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(RunFolderError, match="the report cannot be written"):
            write_report([two[0]], tmp_path / "file/report.html")


def test_which_evaluation_is_shown(two, tmp_path):
    copy = shutil.copytree(two[0], tmp_path / "copy")
    evaluations = copy / "evaluations"
    for name in ("test-2", "test-10", "val", "test-10views"):
        shutil.copytree(evaluations / "test", evaluations / name)
    assert find_evaluation(copy).name == "test-10"
    assert find_evaluation(copy, "val").name == "val"
    assert find_evaluation(copy / "model") == evaluations / "test-10"
    for name in ("test", "test-2", "test-10"):
        shutil.rmtree(evaluations / name)
    with pytest.raises(InputError, match=r"there are several evaluations \(test-10views, val\); say which one"):
        find_evaluation(copy)
    shutil.rmtree(evaluations / "test-10views")
    for name in ("val-2", "val-10"):  # training leaves one of the validation photos, and people add more
        shutil.copytree(evaluations / "val", evaluations / name)
    assert find_evaluation(copy).name == "val-10"


def test_numbers_of_splits_are_no_reruns(two, tmp_path):
    copy = shutil.copytree(two[0], tmp_path / "copy")
    evaluations = copy / "evaluations"
    (evaluations / "test").rename(evaluations / "fold-1")
    shutil.copytree(evaluations / "fold-1", evaluations / "fold-2")
    with pytest.raises(InputError, match=r"there are several evaluations \(fold-1, fold-2\); say which one"):
        find_evaluation(copy)
    shutil.copytree(evaluations / "fold-2", evaluations / "fold-2-2")
    shutil.rmtree(evaluations / "fold-1")
    assert find_evaluation(copy).name == "fold-2-2"


def test_the_validation_photos_are_shown_where_there_is_nothing_else(two, tmp_path):
    """Training leaves an evaluation of them; whoever evaluates on other photos means those."""
    copy = shutil.copytree(two[0], tmp_path / "copy")
    evaluations = copy / "evaluations"

    def evaluated(name, split):
        folder = shutil.copytree(two[0] / "evaluations/test", evaluations / name)
        replace(EvaluationResult.read(folder / "result.json"), split=split).write(folder / "result.json")

    shutil.rmtree(evaluations)
    evaluated("val", "val")
    assert find_evaluation(copy).name == "val"
    evaluated("wild", "wild")
    assert find_evaluation(copy).name == "wild"
    evaluated("other", "other")
    with pytest.raises(InputError, match=r"there are several evaluations \(other, val, wild\); say which one"):
        find_evaluation(copy)
    shutil.rmtree(evaluations / "other")
    (copy / "config.toml").write_text('val_split = "wild"\n')
    assert find_evaluation(copy).name == "val"


class TestEvaluationDetails:
    """What evaluations of real photos write for a report."""

    @pytest.fixture
    def manifest(self, tmp_path, monkeypatch):
        register(monkeypatch)
        monkeypatch.setenv("FINEGRAPH_CACHE", str(tmp_path / "cache"))
        return make_photos(tmp_path / "photos")

    @pytest.mark.deep
    def test_from_photos_to_a_page_when_the_photos_are_gone(self, manifest, tmp_path):
        run = make_trained_run(tmp_path / "run", manifest, tune="head")
        # Training leaves the features of its photos behind; here an evaluation of them does.
        evaluate_run(run, split="train", details=False)
        found = evaluate_run(run)
        shutil.rmtree(manifest.parent)
        written = write_report([run], tmp_path / "r.html")
        results = read_run(run, "run")
        assert written.photos == 12 == len(results.thumbnails) == len(results.gallery)
        training = results.about["training"]
        assert training["photos"] == 20
        assert training["fine"] == [5, 5, 5, 5]
        assert training["kinds"]["colour"] == [10, 10]
        assert results.arrays["predicted"].tolist() == results.arrays["top_labels"][:, 0].tolist()
        assert results.arrays["top_probabilities"].sum(axis=1) == pytest.approx(np.ones(12), abs=1e-5)
        assert results.right.mean() == pytest.approx(found.result.top1)
        # A photo of the first of each sort shows another size than its class has.
        seen = [path for path in results.photos if path.endswith("-0.png")]
        place = results.graph.kinds.index("size")
        large = results.graph.label_index("size", "large")
        for path in seen:
            assert results.arrays["kinds_true"][results.photos.index(path), place] == large
        assert results.arrays["similar"].shape == (12, 4)
        assert (np.diff(results.arrays["similar_distances"], axis=1) >= 0).all()
        assert results.similar.keys() == set(range(len(results.about["similar"])))

    @pytest.mark.deep
    def test_explanations_add_up_to_the_log_odds(self, manifest, tmp_path):
        run = make_trained_run(tmp_path / "run", manifest)
        evaluate_run(run)
        results = read_run(run, "run")
        top = np.log(results.arrays["top_probabilities"].astype(float))
        place = {number: row for row, number in enumerate(results.arrays["sample"].tolist())}
        for number, parts in zip(results.arrays["gallery"].tolist(), results.arrays["parts"], strict=True):
            assert parts.sum() == pytest.approx(top[place[number], 0] - top[place[number], 1], abs=1e-4)

    @pytest.mark.deep
    @pytest.mark.parametrize("tune", ["head", "all"])
    def test_similar_photos_are_the_same_when_features_are_stored(self, manifest, tmp_path, tune):
        run = make_trained_run(tmp_path / "run", manifest, tune=tune)
        first = read_run(run, "run", evaluate_run(run).folder.name)
        second = read_run(run, "run", evaluate_run(run).folder.name)
        ten = read_run(run, "run", evaluate_run(run, views=10).folder.name)
        assert first.about["notes"] == second.about["notes"] == ten.about["notes"] == []
        assert (run / "features").is_dir() == (tune == "all")  # features of this network are of no use to other runs
        for other in (second, ten):
            assert other.about["similar"] == first.about["similar"]
            assert other.arrays["similar"].tolist() == first.arrays["similar"].tolist()
            assert other.arrays["similar_distances"] == pytest.approx(first.arrays["similar_distances"], abs=1e-4)

    @pytest.mark.parametrize(
        ("lost", "note"),
        [
            ("train-*-0.png", "Similar photos were looked for among 16 of the 20 training photos."),
            ("train-*", "Similar training photos are left out: the training photos cannot be read any more."),
        ],
    )
    def test_training_photos_that_are_gone(self, manifest, tmp_path, lost, note):
        run = make_trained_run(tmp_path / "run", manifest)
        for path in manifest.parent.glob(lost):
            path.unlink()
        evaluate_run(run)
        results = read_run(run, "run")
        assert results.about["notes"] == [note]
        assert ("similar" in results.arrays) == ("among" in note)

    def test_evaluated_photos_that_are_gone(self, manifest, tmp_path):
        run = make_trained_run(tmp_path / "run", manifest)
        samples, notes = read_samples(str(manifest)), []
        asked, train = samples.split("test"), samples.split("train")
        classifier = PhotoClassifier.load(run / "model")
        stored = FeatureSettings(cache=str(tmp_path / "cache"))
        asked[1].path.unlink()
        found = similar_of_photos(classifier, asked, [0, 1], train, box=False, notes=notes, settings=stored)
        assert (found.numbers[0] >= 0).all()
        assert (found.numbers[1] == -1).all()
        assert np.isnan(found.distances[1]).all()
        assert notes == []
        assert similar_of_photos(classifier, asked, [1], train, box=False, notes=notes, settings=stored) is None
        assert notes == ["Similar training photos are left out: the evaluated photos cannot be read any more."]

    def test_a_model_of_its_own(self, manifest, tmp_path):
        run = make_trained_run(tmp_path / "run", manifest)
        shutil.copytree(run / "model", tmp_path / "mine")
        evaluate_run(tmp_path / "mine", data=str(manifest))
        (tmp_path / "config.toml").write_text("seed = 7\n")  # of something else that is there
        written = write_report([tmp_path / "mine"], tmp_path / "r.html")
        assert written.runs == ("mine",)
        results = read_run(tmp_path / "mine", "mine")
        assert (results.settings, results.about["training"]) == ({}, None)
        assert "it is not known which photos it was trained with" in results.about["notes"][0]

    @pytest.mark.deep
    def test_bad_photos_and_details_that_are_not_wanted(self, manifest, tmp_path):
        run = make_trained_run(tmp_path / "run", manifest)
        bad = sorted(manifest.parent.glob("test-*"))[4]
        bad.write_bytes(b"")
        evaluate_run(run, on_bad_file="skip")
        write_report([run], tmp_path / "r.html")
        text = (tmp_path / "r.html").read_text("utf-8")
        assert f"<bdi>{bad}</bdi>: the file is empty" in text
        found = evaluate_run(run, on_bad_file="skip", details=False)
        assert sorted(path.name for path in found.folder.iterdir()) == ["result.json", "samples.csv"]


def test_every_array_is_documented(two):
    from pathlib import Path

    text = (Path(__file__).parents[2] / "docs/evaluation.md").read_text("utf-8")
    table = text.split("| array | meaning |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(read_run(two[0], "one").arrays)


def test_every_option_is_documented():
    from pathlib import Path

    import typer

    from finegraph.cli.report import report

    app = typer.Typer(add_completion=False)
    app.command()(report)
    options = {
        name
        for one in typer.main.get_command(app).params
        if not one.hidden
        for name in one.opts
        if name.startswith("-")
    }
    text = (Path(__file__).parents[2] / "docs/report.md").read_text("utf-8")
    table = text.split("| option | meaning |")[1].split("\n\n")[0]
    assert set(re.findall(r"(?<![\w-])--?[a-z]+", table)) == options
