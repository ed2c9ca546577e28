"""The numbers of a report: orders, curves, comparisons and examples, against slow obvious versions."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from finegraph.data.dataset import MISSING
from finegraph.errors import InputError
from finegraph.evaluation.number_metrics import NumberMetrics, OrderMetrics
from finegraph.graph import LabelGraph
from finegraph.graph.kind_worth import kind_worth
from finegraph.reports.comparison import baseline_of, compare_runs, in_order_of, on_common_photos
from finegraph.reports.curves import RISKS, fine_curve, inside_shares, sure_curve
from finegraph.reports.examples import choose_examples, worst_losses
from finegraph.reports.orders import confusions, order_by_coarse, order_by_confusion
from finegraph.reports.page.cards import kind_answers
from finegraph.reports.page.page_data import (
    REST,
    json_in_html,
    largest_parts,
    packed,
    packed_shares,
    page_data,
    short_names,
)
from finegraph.reports.page.svg_charts import (
    Axis,
    Series,
    legend,
    line_chart,
    named_bars,
    nice_ticks,
    run_mark,
    stacked_bars,
)
from finegraph.reports.report_page import compared, report_page
from finegraph.reports.run_results import read_run
from finegraph.reports.sections import (
    accuracy_section,
    calibration_section,
    explanation_section,
    facts_section,
    mistakes_section,
    values_section,
)
from finegraph.training.records.starts import Commit, Start
from reports.made_up_runs import made_up_graph, make_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    graph = made_up_graph()
    return [
        read_run(make_run(folder / head, graph, 150, seed=seed, head=head), head)
        for seed, head in enumerate(("bipartite", "softmax"))
    ]


class TestFacts:
    def test_what_a_run_was_trained_with_is_told_where_it_is_known(self, runs):
        first = Start(time="", finegraph="1.0", python="3.11.1", torch="2.6.0")
        commits = (
            Commit(folder="/menu", commit="abc", changed=True),
            Commit(folder="/photos", commit="def", changed=False),
        )
        then = Start(time="", finegraph="1.1", python="3.11.1", torch="2.6.0", commits=commits)
        known, resumed, unknown = facts_section(
            [replace(runs[0], starts=[first]), replace(runs[0], starts=[first, first, then]), runs[1]]
        )
        assert known["facts"]["trained with"] == "finegraph 1.0, torch 2.6.0, Python 3.11.1"
        assert resumed["facts"]["trained with"] == (
            "finegraph 1.0, torch 2.6.0, Python 3.11.1; then finegraph 1.1, torch 2.6.0, Python 3.11.1"
        )
        assert resumed["facts"]["trained at commit"] == "abc with changes (/menu); def (/photos)"
        assert "trained at commit" not in known["facts"]
        assert not {"trained with", "trained at commit"} & set(unknown["facts"])


class TestOrders:
    def test_every_label_stands_once(self):
        random = np.random.default_rng(0)
        true, answered = random.integers(0, 30, (2, 200))
        assert sorted(order_by_confusion(true, answered, 30).tolist()) == list(range(30))

    def test_labels_that_are_taken_for_each_other_are_neighbours(self):
        true, answered = np.array([0, 0, 5, 5, 1, 3]), np.array([5, 5, 0, 5, 4, 3])
        order = order_by_confusion(true, answered, 6).tolist()
        assert abs(order.index(0) - order.index(5)) == 1
        assert abs(order.index(1) - order.index(4)) == 1

    def test_coarse_labels_stay_together_the_kind_with_few_labels_first(self):
        graph = LabelGraph.from_table(
            {f"f{n}": {"many": f"m{n % 4}", "few": f"w{n % 2}", "yes": bool(n % 3)} for n in range(16)}
        )
        kinds = {kind: np.arange(len(graph.labels(kind))) for kind in graph.kinds}
        order = order_by_coarse(graph, np.arange(16), kinds)
        for kind in ("few", "many"):
            parents = graph.parents(kind)[order]
            assert int((np.diff(parents) != 0).sum()) + 1 == len(graph.labels(kind))

    def test_confusions_are_counted_without_right_and_unknown_ones(self):
        true, answered = np.array([0, 0, 0, 1, -1]), np.array([1, 1, 0, 2, 1])
        assert [array.tolist() for array in confusions(true, answered, 3)] == [[0, 1], [1, 2], [2, 1]]


class TestCurves:
    def test_the_sure_answers_are_those_of_the_evaluation(self, runs):
        for run in runs:
            point = sure_curve(run)[RISKS.index(0.05)]
            sure = run.result.sure
            assert point.coverage == pytest.approx(sure.coverage)
            assert point.wrong == pytest.approx(sure.realised_risk)
            assert point.levels == pytest.approx(list(sure.levels.values()))

    def test_saying_every_fine_label_is_wrong_as_often_as_top_1_is(self, runs):
        coverage, wrong = fine_curve(runs[0])[-1]
        assert (coverage, wrong) == (1.0, pytest.approx(1 - runs[0].result.top1))

    def test_inside_by_chance_where_labels_have_several_parents_or_none(self, tmp_path):
        """Against drawing every other label for every mistake."""
        random = np.random.default_rng(3)
        table = {}
        for number in range(14):
            parents = random.choice(5, random.integers(1, 4), replace=False)
            table[f"f{number}"] = {"dish": {f"d{place}" for place in parents} if number % 5 else None}
        graph = LabelGraph.from_table(table)
        run = read_run(make_run(tmp_path / "run", graph, 140, strength=0.5), "run")
        kind = graph.kind("dish")
        parents = [set(kind.coarse[kind.starts[n] : kind.starts[n + 1]].tolist()) for n in range(14)]
        drawn, inside = [], []
        for true, answered in zip(run.arrays["fine"].tolist(), run.arrays["predicted"].tolist(), strict=True):
            if true != answered and parents[true] and parents[answered]:
                others = [own for number, own in enumerate(parents) if number != true and own]
                drawn.append(np.mean([bool(own & parents[true]) for own in others]))
                inside.append(bool(parents[true] & parents[answered]))
        (row,) = inside_shares(run)
        assert row.mistakes == len(drawn) > 20
        assert row.chance == pytest.approx(np.mean(drawn))
        assert row.share == pytest.approx(np.mean(inside))

    def test_mistakes_inside_a_coarse_label(self, runs):
        by_kind = runs[0].result.mistakes.by_kind
        for row in inside_shares(runs[0]):
            assert row.share == pytest.approx(1 - by_kind[row.kind])
            parents, true = runs[0].graph.parents(row.kind), runs[0].arrays["fine"]
            wrong = true[true != runs[0].arrays["predicted"]]
            expected = np.mean([np.mean(np.delete(parents, one) == parents[one]) for one in wrong])
            assert row.chance == pytest.approx(expected)


class TestComparison:
    def test_means_and_paired_differences(self, runs):
        common = on_common_photos(runs)
        assert baseline_of(common) == 1
        metrics = {metric.name: metric for metric in compare_runs(common, 1)}
        top = metrics["top 1"]
        assert [value.mean for value in top.values] == pytest.approx([run.result.top1 for run in runs])
        difference = top.differences[0]
        assert difference.mean == pytest.approx(runs[0].result.top1 - runs[1].result.top1)
        assert difference.low < difference.mean < difference.high
        assert top.differences[1] is None
        assert metrics["dish"].values[0].mean == pytest.approx(runs[0].result.kinds["dish"])
        assert metrics["negative log-likelihood"].values[1].mean == pytest.approx(runs[1].result.nll)

    def test_photos_that_only_one_run_answered_are_left_out(self, runs, tmp_path):
        fewer = read_run(make_run(tmp_path / "fewer", made_up_graph(), 90, seed=7), "fewer")
        common = on_common_photos([runs[0], fewer])
        assert common[0].photos == common[1].photos == [path for path in runs[0].photos if path in set(fewer.photos)]
        assert len(common[0].arrays["predicted"]) == len(common[0].photos) < 150

    def test_a_photo_with_several_boxes_counts_once_for_each(self, runs):
        def in_pairs(run):  # each photo is listed twice in a row, with another box
            photos = [f"/data/{number // 2:05d}.jpg" for number in range(len(run.about["photos"]))]
            return replace(run, about={**run.about, "photos": photos})

        paired = [in_pairs(run) for run in runs]
        for alone in ([paired[0]], paired):
            common = on_common_photos(alone)
            for run, own in zip(runs, common, strict=False):
                assert own.right.mean() == pytest.approx(run.result.top1)
                assert (own.arrays["sample"] == run.arrays["sample"]).all()
        assert f'<span class="mean">{100 * runs[0].result.top1:.1f} %</span>' in report_page([paired[0]])
        # One run could not read the second of the photos; the box that both have is still its own.
        rows = [row for row in range(150) if row != 1]
        arrays = {name: array[rows] if len(array) == 150 else array for name, array in paired[1].arrays.items()}
        common = on_common_photos([paired[0], replace(paired[1], arrays=arrays)])
        assert all(run.arrays["sample"].tolist() == rows for run in common)

    def test_infinite_losses_are_counted_and_not_left_out(self, runs):
        log_prob = runs[0].arrays["log_prob"].copy()
        log_prob[[3, 5]] = -np.inf
        odd = replace(runs[0], arrays={**runs[0].arrays, "log_prob": log_prob})
        loss = next(metric for metric in compare_runs([odd, runs[1]], 1) if metric.name == "negative log-likelihood")
        assert loss.infinite == (2, 0)
        assert loss.values[0] is None
        assert loss.values[1].mean == pytest.approx(runs[1].result.nll)
        assert loss.differences == loss.verdicts == (None, None)
        page = report_page([odd])
        assert '<td class="num">– <span class="range">infinite for 2 photos</span></td>' in page

    @pytest.mark.deep
    def test_how_many_photos_only_some_runs_answered(self, runs):
        def without(run, rows):
            kept = [row for row in range(150) if row not in rows]
            arrays = {name: array[kept] if len(array) == 150 else array for name, array in run.arrays.items()}
            return replace(run, arrays=arrays)

        found = compared([without(runs[0], {1, 2, 3}), without(runs[1], {3, 4, 5})])
        assert (len(found.runs[0].photos), found.left_out) == (145, 4)  # none answered the fourth
        assert "The grey lines and the calibration use all photos" in report_page([runs[0], without(runs[1], {1})])
        assert "lines in grey" not in report_page(runs)

    @pytest.mark.deep
    def test_fine_labels_in_another_order(self, runs):
        """A baseline that was trained without a graph lists its labels by name."""
        graph = runs[1].graph
        shuffled = in_order_of(runs[1], np.random.default_rng(0).permutation(graph.fine).tolist())
        assert shuffled.graph.fine != graph.fine
        for kind in graph.kinds:
            for label in graph.fine:
                rows = [each.matrix(kind)[each.fine_index(label)] for each in (graph, shuffled.graph)]
                np.testing.assert_array_equal(*rows)
        arrays = runs[1].arrays
        for name in ("fine", "predicted", "top_labels"):
            told = [
                [each.graph.fine[n] for n in each.arrays[name].reshape(-1).tolist()] for each in (runs[1], shuffled)
            ]
            assert told[0] == told[1]
        fine = arrays["sure_level"] == 0
        assert fine.any()
        assert not fine.all()
        assert [shuffled.graph.fine[n] for n in shuffled.arrays["sure_label"][fine]] == [
            graph.fine[n] for n in arrays["sure_label"][fine]
        ]
        assert (shuffled.arrays["sure_label"][~fine] == arrays["sure_label"][~fine]).all()
        counts = [dict(zip(e.graph.fine, e.about["training"]["fine"], strict=True)) for e in (runs[1], shuffled)]
        assert counts[0] == counts[1]
        assert report_page([runs[0], shuffled]) == report_page(runs)

    def test_the_run_with_the_most_kinds_says_what_the_labels_are(self, runs):
        """A baseline that knows no kinds hides none of those of the other run."""
        plain = replace(
            runs[1],
            graph=runs[1].graph.only([]),
            arrays={
                **runs[1].arrays,
                **{name: runs[1].arrays[name][:, :0] for name in runs[1].arrays if name.startswith("kinds_")},
            },
        )
        data = page_data([plain, runs[0]], 0, 1)
        assert [kind["name"] for kind in data["kinds"]] == list(runs[0].graph.kinds)
        assert [each["kinds"][0] is None for each in data["runs"]] == [True, False]
        [card, *_] = [kind_answers([plain, runs[0]], row) for row in range(3)]
        assert [len(one["answers"]) for one in card] == [1] * len(card)
        assert len(calibration_section([plain, runs[0]])) == len(calibration_section([runs[0], plain])) > 1
        assert data["trainOf"] == runs[0].name

    def test_what_cannot_be_compared(self, runs, tmp_path):
        other = read_run(make_run(tmp_path / "other", made_up_graph(13), 30), "other")
        with pytest.raises(InputError, match="expected runs with the same fine labels, but 'other' has 13"):
            on_common_photos([runs[0], other])


class TestSections:
    def test_photos_without_a_label_are_not_wrong_in_another_way(self, runs):
        def without(run):
            fine = run.arrays["fine"].copy()
            fine[:40] = MISSING
            return replace(run, arrays={**run.arrays, "fine": fine})

        one, two = (run.arrays["predicted"][40:] for run in runs)
        true = runs[0].arrays["fine"][40:]
        changed = accuracy_section([without(run) for run in runs], 1)["changed"][0]
        assert changed["moved"] == int(((one != two) & (one != true) & (two != true)).sum())

    def test_a_run_without_mistakes_beside_one_with(self, runs):
        flawless = replace(runs[0], arrays={**runs[0].arrays, "predicted": runs[0].arrays["fine"]})
        rows = mistakes_section([flawless, runs[1]], 1)["inside"]
        assert [row["kind"] for row in rows] == list(runs[1].graph.kinds)
        assert all(row["cells"][0] is None and row["cells"][1].share >= 0 for row in rows)


class TestExamples:
    def test_equal_numbers_of_each_sort(self, runs):
        sorts = {sort.key: sort for sort in choose_examples(runs, 1, 0)}
        assert list(sorts) == ["fixes", "breaks", "random"]
        assert {len(sort.photos) for sort in sorts.values()} == {6}
        assert all(runs[0].right[row] and not runs[1].right[row] for row in sorts["fixes"].photos)
        assert all(runs[1].right[row] and not runs[0].right[row] for row in sorts["breaks"].photos)
        assert sorts["fixes"].of == int((runs[0].right & ~runs[1].right).sum())

    def test_the_rarest_sort_says_how_many(self, runs):
        few = choose_examples([runs[0]], 0, 0, each=10_000)
        assert {len(sort.photos) for sort in few[:2]} == {min(sort.of for sort in few)}

    def test_random_ones_are_not_chosen_by_their_answers(self, runs):
        """The same photos are drawn whatever a run answers, apart from those that are shown already."""
        one, two = (choose_examples([run], 0, 0, 1)[2].photos for run in runs)
        photos = runs[0].photos
        from finegraph.evaluation.details import draw_order

        first = np.argsort(draw_order(photos))[:3].tolist()
        assert set(one) | set(two) <= set(first)

    def test_worst_losses_come_worst_first(self, runs):
        rows = worst_losses(runs[0], 10)
        losses = runs[0].arrays["log_prob"][rows]
        assert (np.diff(losses) >= 0).all()
        assert losses[0] == runs[0].arrays["log_prob"][~runs[0].right].min()


class TestPacking:
    def test_numbers_come_back(self):
        import base64

        for values, form in (([-1, 100], "i1"), ([300, -1], "i2"), ([70_000], "i4"), ([0.5, -2.25], "f4")):
            column = packed(np.array(values))
            assert column["form"] == form
            assert np.frombuffer(base64.b64decode(column["base64"]), "<" + form).tolist() == values
        steps = np.frombuffer(base64.b64decode(packed_shares(np.array([0.0, 0.25, 1.0]))["base64"]), "<u2")
        assert (steps / 65535).tolist() == pytest.approx([0, 0.25, 1.0], abs=1e-5)

    def test_json_cannot_end_its_element(self):
        text = json_in_html(["</script><!-- & \u2028", "\udc80"])
        assert not set("<>&\u2028") & set(text)
        import json

        assert json.loads(text) == ["</script><!-- & \u2028", "\udc80"]

    def test_the_rest_of_an_explanation_is_one_part(self):
        parts = np.array([0.1, -3.0, 2.0, 0.5])
        assert largest_parts(parts, 2) == [(1, -3.0), (2, 2.0), (REST, pytest.approx(0.6))]
        assert largest_parts(parts, 4)[-1] == (0, pytest.approx(0.1))

    def test_names_lose_the_folders_that_all_share(self):
        assert short_names(["/home/me/a/1.jpg", "/home/me/b/2.jpg"]) == ["a/1.jpg", "b/2.jpg"]
        assert short_names(["a/1.jpg", "/b/2.jpg"]) == ["a/1.jpg", "/b/2.jpg"]


def test_many_lines_can_be_told_apart():
    """No two of many runs have the same colour and mark, and their classes are in the style sheet."""
    from importlib.resources import files

    style = files("finegraph.reports").joinpath("page/report.css").read_text("utf-8")
    looks = set()
    for number in range(24):
        series = [Series("<many>", [(0, 0), (1, 1)], number, dashed=True, marks=True, errors=[(0, 0), (1, 1)])]
        text = line_chart(series, Axis(0, 1, "x"), Axis(0, 1, "y"), "alt") + legend(series)
        assert "<bdi>&lt;many&gt;</bdi>" in text
        for name in re.findall(r"\b(?:[smd]\d)\b", " ".join(re.findall(r'class="([^"]+)"', text))):
            assert name == "d0" or f".{name}{{" in style or f".{name}," in style, name
        looks.add(run_mark(number))
        assert re.search(r"<(circle|polygon)[^>]+/>", run_mark(number))[1] in text
    assert len(looks) == 24


def test_bars_of_two_parts():
    text = stacked_bars([("softmax", (1.0, 3.0)), ("bi<b>", (2.0, 2.0))], "there and back")
    widths = [float(width) for width in re.findall(r'class="part\d" [^>]*width="([\d.]+)"', text)]
    assert widths[0] * 3 == pytest.approx(widths[1], abs=0.05)
    assert widths[2] == widths[3]
    assert "1.00 + 3.00" in text
    assert "bi&lt;b&gt;" in text


def test_names_of_bars_have_room():
    assert "ingredient: red pepper" in named_bars([("ingredient: red pepper", 1.0), ("x", 2.0)], "alt")


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 70), (0.35, 0.6), (0, 12345)])
def test_ticks_are_round_and_inside(low, high):
    ticks = nice_ticks(low, high)
    assert 2 <= len(ticks) <= 6
    assert low <= ticks[0] < ticks[-1] <= high + 1e-9


def test_with_many_kinds_fewer_photos_are_explained(tmp_path):
    few = read_run(make_run(tmp_path / "few", made_up_graph(8, (), 2), 60), "few")
    many = read_run(make_run(tmp_path / "many", made_up_graph(8, (), 80), 60), "many")
    explained = [int((~np.isnan(run.arrays["parts"]).any(axis=1)).sum()) for run in (few, many)]
    assert explained == [60, 2 * 60 * 16 // 80]
    assert [len(run.arrays["gallery"]) for run in (few, many)] == [60, 60]


def test_many_runs_look_different_in_print():
    from finegraph.reports.plots.plot_style import look_of

    looks = [look_of(number) for number in range(24)]
    assert len({(look.marker, look.hatch, look.line) for look in looks}) == 24  # in grey
    assert len({(look.colour, look.marker) for look in looks}) == 24
    assert len({str(look.dots) for look in looks[:5]}) == 5


@pytest.mark.deep
@pytest.mark.parametrize("fine", [pytest.param(7, marks=pytest.mark.slow), 20])
def test_long_names_leave_room_for_the_metrics(tmp_path, monkeypatch, fine):
    """A layout that does not fit is a warning, and a warning is an error here."""
    from finegraph.reports.plots import plot_style, report_plots
    from finegraph.reports.report_page import compared

    monkeypatch.setattr(plot_style, "DPI", 30)
    name = "stir-fried chicken with tofu, bok choy and $broccoli$ @ The Nine Clouds Noodle House {}"
    graph = LabelGraph.from_table({name.format(n): {f"kind of {name}": f"label {name} {n % 3}"} for n in range(fine)})
    both = [
        read_run(make_run(tmp_path / head, graph, 60, seed=seed, head=head), head)
        for seed, head in enumerate(("softmax", "bipartite"))
    ]
    assert len(report_plots.draw_plots(compared(both), [], tmp_path).names) == 12


def test_what_each_kind_is_worth_is_shown_where_it_is_known(runs):
    kinds = runs[0].graph.kinds
    assert explanation_section(runs)["worth"] == []  # evaluations of earlier versions do not say it
    variances = {"kinds": {kind: 3.0 * (number == 0) for number, kind in enumerate(kinds)}, "own": 1.0}
    told = replace(runs[0], about={**runs[0].about, "variances": variances})
    (panel,) = explanation_section([told, runs[1]])["worth"]
    worth = kind_worth(told.graph, variances["kinds"], 1.0)
    assert panel["words"] == worth.words
    assert worth.words.endswith(("add nothing.", "adds nothing."))
    page = report_page([told])
    assert "What each kind is worth" in page
    assert f">{100 * worth.kinds[kinds[0]]:.0f} %</text>" in page
    assert "What each kind is worth" not in report_page([runs[0]])
    softmax = replace(runs[1], about={**runs[1].about, "variances": {"kinds": {}, "own": 1.0}})
    assert explanation_section([softmax])["worth"] == []


def test_numbers_and_orders_of_a_report():
    number = NumberMetrics(
        photos=2,
        unit="EUR",
        error=0.5,
        best_label_error=0.75,
        relative_error=None,
        coverage={"0.5": 0.5, "0.9": 1.0},
        width=3.0,
        spearman=None,
        kendall=0.25,
        pairs=[[9.0, 9.5], [12.0, 11.5]],
    )
    order = OrderMetrics(photos=2, steps=0.5, best_label_steps=1.0, within_one=1.0, spearman=0.5)
    run = SimpleNamespace(name="menu", result=SimpleNamespace(numbers={"price": number}, orders={"heat": order}))
    found = values_section([run])
    assert [panel["name"] for panel in found["panels"]] == ["menu: price, EUR"]
    assert found["panels"][0]["chart"].count("<circle") == 2
    assert (
        found["numbers"][0] | {"error": "0.5", "best": "0.75", "spearman": "–", "inside": "100.0 %"}
        == found["numbers"][0]
    )
    assert found["orders"][0]["steps"] == "0.5"
    assert values_section([SimpleNamespace(name="a", result=SimpleNamespace(numbers={}, orders={}))]) is None
