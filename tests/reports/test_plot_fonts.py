"""Names in any script: fonts are chosen from those that are installed, and what none has is said once."""

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager

from finegraph.graph import LabelGraph
from finegraph.reports.plots import plot_style
from finegraph.reports.plots.plot_fonts import FIRST, fonts_for
from finegraph.workflows.report import write_report
from reports.made_up_runs import make_run


def make_font(path, family, letters):
    """A font file in which each letter is a square."""
    names = [".notdef", *(f"u{ord(letter):04X}" for letter in letters)]
    pen = TTGlyphPen(None)
    for move in ((100, 0), (900, 0), (900, 800), (100, 800)):
        (pen.moveTo if move == (100, 0) else pen.lineTo)(move)
    pen.closePath()
    square = pen.glyph()
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(letter): name for letter, name in zip(letters, names[1:], strict=True)})
    builder.setupGlyf(dict.fromkeys(names, square))
    builder.setupHorizontalMetrics(dict.fromkeys(names, (1000, 100)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": family, "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(path)


@pytest.fixture
def install(monkeypatch, tmp_path):
    """Install fonts for a test; at first there are those alone that come with the plots."""
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda *_, **__: [])
    own = [entry for entry in font_manager.fontManager.ttflist if "mpl-data" in entry.fname]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)

    def one(family, letters):
        make_font(tmp_path / f"{family}.ttf", family, letters)
        monkeypatch.setattr(font_manager, "findSystemFonts", lambda *_, **__: [str(tmp_path / f"{family}.ttf")])

    return one


@pytest.mark.usefixtures("install")
def test_one_font_is_enough_for_most_names():
    assert fonts_for(["mapo tofu", "crème brûlée", "щи", "שלום", "كبسة", "\u202e\t\udc80"]).families == (FIRST,)
    assert fonts_for(["mapo tofu"]).note is None


def test_a_font_that_was_installed_since_is_found(install):
    assert fonts_for(["麻婆 tofu"]).missing == "婆麻"
    install("Some Sans", "麻婆豆腐")
    fonts = fonts_for(["麻婆 tofu"])
    assert (fonts.families, fonts.missing, fonts.note) == ((FIRST, "Some Sans"), "", None)


@pytest.mark.usefixtures("install")
def test_what_to_install_is_said():
    note = fonts_for(["麻婆豆腐"]).note
    assert note.startswith("the plots have boxes in place of 4 characters that no installed font has: 婆 (U+5A46), ")
    assert "install Noto Sans CJK (the package fonts-noto-cjk on Debian and Ubuntu) and draw them again" in note
    assert "a character that no installed font has: ꦲ (U+A9B2); install the Noto fonts of these" in fonts_for("ꦲ").note
    assert "fonts-noto-cjk" in fonts_for("한ꦲ").note


@pytest.mark.deep
@pytest.mark.usefixtures("install")
def test_plots_with_boxes_say_it_once_and_warn_of_nothing(tmp_path, monkeypatch):
    """A raw warning would be an error here."""
    monkeypatch.setattr(plot_style, "DPI", 30)
    graph = LabelGraph.from_table({f"麻婆豆腐 {n}": {"菜 $x$": f"مكان {n % 2}"} for n in range(4)})
    written = write_report([make_run(tmp_path / "run", graph, 24)], plots=tmp_path / "plots")
    assert len(written.notes) == 1
    assert "5 characters" in written.notes[0]


@pytest.mark.deep
def test_plots_use_the_font_that_has_the_letters(install, tmp_path, monkeypatch):
    monkeypatch.setattr(plot_style, "DPI", 30)
    install("Some Sans", "麻婆豆腐")
    graph = LabelGraph.from_table({f"麻婆豆腐 {n}": {"dish": f"d{n % 2}"} for n in range(4)})
    written = write_report([make_run(tmp_path / "run", graph, 24)], plots=tmp_path / "plots")
    assert written.notes == ()
