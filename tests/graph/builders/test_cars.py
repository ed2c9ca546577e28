"""The table of Stanford Cars, checked row by row against what the class names say."""

import csv
from collections import Counter
from importlib.resources import files

import pytest

from finegraph.errors import GraphError, UnknownNameError
from finegraph.graph import LabelGraph
from finegraph.graph.builders import graph_from_cars

TYPE_WORDS = {
    "Convertible": "Convertible",
    "Coupe": "Coupe",
    "Hatchback": "Hatchback",
    "Minivan": "Minivan",
    "Sedan": "Sedan",
    "SUV": "SUV",
    "Cab": "Truck",
    "SuperCab": "Truck",
    "Van": "Van",
    "Wagon": "Wagon",
}
OTHER_TYPE_WORDS = {
    *("Conv.", "Drophead", "Roadster", "Cargo", "Passenger"),
    *("SUT", "Crew", "Extended", "Regular", "Club", "Quad"),
}
VERSIONS = {
    *("Type-S", "Type R", "S", "RS", "GS", "-V", "EXT", "ZR1", "Ron Fellows Edition Z06", "SS", "SRT-8", "SRT8", "EL"),
    *("1500", "1500 Classic", "1500 Hybrid", "2500HD", "3500", "Super Duty", "Hybrid", "Abarth", "T", "Touring", "IPL"),
    *("XKR", "LP 570-4 Superleggera", "Supersports", "GT", "Flying Spur", "16.4"),
}
TYPE_NOT_IN_NAME = {
    "Acura TL Type-S 2008": "Sedan",
    "Acura Integra Type R 2001": "Hatchback",
    "Buick Regal GS 2012": "Sedan",
    "Chevrolet Corvette ZR1 2012": "Coupe",
    "Chevrolet Corvette Ron Fellows Edition Z06 2007": "Coupe",
    "Chevrolet HHR SS 2010": "Wagon",
    "Chevrolet Cobalt SS 2010": "Coupe",
    "Chevrolet TrailBlazer SS 2009": "SUV",
    "Chrysler 300 SRT-8 2010": "Sedan",
    "Dodge Challenger SRT8 2011": "Coupe",
    "Dodge Charger SRT-8 2009": "Sedan",
    "FIAT 500 Abarth 2012": "Hatchback",
    "Jaguar XK XKR 2012": "Coupe",
    "Lamborghini Gallardo LP 570-4 Superleggera 2012": "Coupe",
}


@pytest.fixture(scope="module")
def rows():
    text = files("finegraph.graph.builders").joinpath("stanford_cars.csv").read_text(encoding="utf-8")
    assert text.splitlines()[0] == "fine,make,model,year,type"
    return list(csv.DictReader(text.splitlines()))


def test_names_are_196_in_the_official_order(rows):
    names = [row["fine"] for row in rows]
    assert len(names) == len(set(names)) == 196
    # Landmarks of the official numbering, which starts at 1.
    landmarks = {1: "AM General Hummer SUV 2000", 2: "Acura RL Sedan 2012", 174: "Ram C/V Cargo Van Minivan 2012"}
    landmarks |= {39: "Bentley Continental Supersports Conv. Convertible 2012", 98: "Eagle Talon Hatchback 1998"}
    landmarks |= {
        141: "Infiniti G Coupe IPL 2012",
        185: "Tesla Model S Sedan 2012",
        196: "smart fortwo Convertible 2012",
    }
    assert {number: names[number - 1] for number in landmarks} == landmarks


def test_makes_stand_together_in_the_official_order(rows):
    makes = [row["make"] for row in rows]
    together = [make for make, before in zip(makes, [None, *makes], strict=False) if make != before]
    assert len(together) == len(set(makes)) == 49
    # Sorted as computers do, capital letters first: so are the official ones.
    assert together == sorted(together)


def test_each_row_agrees_with_its_name(rows):
    for row in rows:
        name, make, model, year = row["fine"], row["make"], row["model"], row["year"]
        assert name.split() == name.split(" "), name
        assert name.split()[-1] == year, name
        assert 1990 <= int(year) <= 2012, name
        assert name.startswith(make + " "), name
        assert model.startswith(make + " "), name
        assert name.startswith(model), name
        rest = name.removeprefix(model).removesuffix(year)
        left = [word for word in rest.split() if word not in TYPE_WORDS and word not in OTHER_TYPE_WORDS]
        assert not left or " ".join(left) in VERSIONS, f"{name}: {left} is neither a body type nor a known version"


def test_types_agree_with_the_names_that_say_one(rows):
    silent = {}
    for row in rows:
        said = [TYPE_WORDS[word] for word in row["fine"].split() if word in TYPE_WORDS]
        if said:
            assert row["type"] == said[-1], row["fine"]
        else:
            silent[row["fine"]] = row["type"]
    assert silent == TYPE_NOT_IN_NAME


def test_counts(rows):
    assert Counter(row["type"] for row in rows) == {
        "Convertible": 26,
        "Coupe": 32,
        "Hatchback": 15,
        "Minivan": 6,
        "SUV": 35,
        "Sedan": 50,
        "Truck": 18,
        "Van": 7,
        "Wagon": 7,
    }
    assert len({row["year"] for row in rows}) == 16
    assert len({row["model"] for row in rows}) == 158
    assert {model: n for model, n in Counter(row["model"] for row in rows).items() if n > 2} == {
        "Audi TT": 3,
        "Bentley Continental": 4,
        "Chevrolet Corvette": 3,
        "Chevrolet Silverado": 5,
    }


def test_graph_is_the_table(rows):
    graph = graph_from_cars()
    assert graph.fine == tuple(row["fine"] for row in rows)
    assert graph.kinds == ("make", "model", "year", "type")
    for kind in graph.kinds:
        labels = graph.labels(kind)
        assert [labels[parent] for parent in graph.parents(kind)] == [row[kind] for row in rows]


def test_table_is_a_graph_file():
    path = files("finegraph.graph.builders").joinpath("stanford_cars.csv")
    assert LabelGraph.read(str(path)) == graph_from_cars()


def test_names_of_the_caller_are_matched_and_kept():
    names = [
        "smart fortwo Convertible 2012",
        "Ram C-V Cargo Van Minivan 2012",
        "bentley_continental_supersports_conv_convertible_2012",
        "Lamborghini Reventón Coupe 2008",
    ]
    graph = graph_from_cars(names)
    assert graph.fine == tuple(names)
    assert [graph.labels("type")[parent] for parent in graph.parents("type")] == [
        "Convertible",
        "Minivan",
        "Convertible",
        "Coupe",
    ]
    assert graph.labels("make") == ("smart", "Ram", "Bentley", "Lamborghini")


def test_names_that_are_no_class_are_all_reported():
    with pytest.raises(UnknownNameError) as caught:
        graph_from_cars(["Acura RL Sedan 2012", "Tesla S Sedan 2012", "a horse", 7])
    assert str(caught.value).splitlines() == [
        "3 class names are not of Stanford Cars:",
        "  'Tesla S Sedan 2012'; did you mean 'Tesla Model S Sedan 2012' or 'Audi S4 Sedan 2012' "
        "or 'Acura TSX Sedan 2012'?",
        "  'a horse'",
        "  7",
        "use the names of the data set, such as 'Acura RL Sedan 2012', or leave these out",
    ]
    with pytest.raises(UnknownNameError, match="and 80 more"):
        graph_from_cars(f"x{number}" for number in range(100))


def test_two_names_for_one_class():
    with pytest.raises(GraphError, match="'Acura RL Sedan 2012' and 'acura rl sedan 2012' are both the class"):
        graph_from_cars(["Acura RL Sedan 2012", "acura rl sedan 2012"])


def test_years_are_numbers_if_asked():
    graph, plain = graph_from_cars(numbers=True), graph_from_cars()
    assert (graph.kinds, graph.numbers) == (("make", "model", "type"), ("year",))
    assert plain.numbers == ()
    years = [float(plain.labels("year")[index]) for index in plain.parents("year")]
    assert graph.values("year").tolist() == years
    assert graph_from_cars(["Acura RL Sedan 2012"], numbers=True).values("year").tolist() == [2012]
