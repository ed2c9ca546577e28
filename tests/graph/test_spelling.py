import numpy as np
import pytest

from finegraph.graph.spelling import SpellingHints, misspelt, near


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("noodle", "noodles"),  # one letter more
        ("nodles", "noodles"),  # one less
        ("noodlas", "noodles"),  # another one
        ("nooldes", "noodles"),  # two swapped
        ("kung poa", "kung pao"),  # two swapped, in a short word
        ("resteraunt", "restaurant"),  # other vowels
        ("mapo tofu", "mapotofu"),
        ("crème brûlée", "creme brulee"),
    ],
)
def test_near_names(one, other):
    assert near(one, other)
    assert near(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("noodles", "noodles"),
        ("noodles", "dumplings"),
        ("noodles", "oodle"),  # two letters less
        ("platter12", "platter13"),  # other digits
        ("type a soup", "type b soup"),  # a short word is another word
        ("beef", "beet"),
        ("plan ab", "plan ba"),
        ("北京烤鸭面条", "北京烤鸡面条"),  # one sign is a word
    ],
)
def test_names_that_are_not_near(one, other):
    assert not near(one, other)
    assert not near(other, one)


def test_the_less_frequent_name_is_the_misspelt_one():
    names = ["noodles", "noodels"]
    assert misspelt(names, np.array([5, 1])) == [(1, 0)]
    assert misspelt(names, np.array([1, 5])) == [(0, 1)]
    assert misspelt(names, np.array([5, 2])) == [(1, 0)]
    assert misspelt(names, np.array([2, 5])) == [(0, 1)]
    assert misspelt(names, np.array([1, 1])) == [(1, 0)]
    assert misspelt(names, np.array([1, 0])) == []
    assert misspelt([], np.array([], dtype=int)) == []


def together(*names):
    """What is found among names that all occur as often."""
    return [(names[one], names[other]) for one, other in misspelt(names, np.full(len(names), 7))]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("House Sparow", "House Sparrow"),
        ("House Sprarow", "House Sparow"),
        ("Californa Gull", "California Gull"),
        ("restuarant", "restaurant"),
        ("kung pao chiken", "kung pao chicken"),
        ("Loggerhaed Shrike", "Loggerhead Shrike"),
        ("creme brulee", "crème brûlée"),
        ("mapotofu", "mapo tofu"),
        ("Red winged Blackbird", "Red-winged Blackbird"),
        ("Dodge Challneger SRT8 2011", "Dodge Challenger SRT8 2011"),
    ],
)
def test_slips_are_found_between_names_that_occur_as_often(one, other):
    assert {frozenset(pair) for pair in together(one, other)} == {frozenset((one, other))}


def test_the_name_with_the_rarer_word_is_the_misspelt_one():
    assert together("House Sparow", "House Sparrow", "Fox Sparrow", "Song Sparrow") == [
        ("House Sparow", "House Sparrow")
    ]
    assert together("House Sparrow", "Fox Sparrow", "House Sparow") == [("House Sparow", "House Sparrow")]


def test_words_of_several_names_are_no_slips():
    names = [f"{bird} {part} warbler" for bird in ("ashen", "bright", "cheery") for part in ("trusted", "trussed")]
    assert together(*names) == []
    assert together("a trusted warbler", "a trussed warbler") != []


def test_names_of_things_that_are_different_are_left_alone():
    assert together(*REAL_NAMES) == []
    assert len(set(REAL_NAMES)) == len(REAL_NAMES) > 150


@pytest.mark.deep
@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_slip_among_very_many_names_is_found(count):
    rng = np.random.default_rng(0)
    syllables = ["ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu", "va"]
    words = ["".join(word) for word in rng.choice(syllables, (50_000, 5))]
    names = sorted({f"{words[a]} {words[b]}" for a, b in rng.integers(0, len(words), (count, 2))})
    names += ["golden crowned kinglet", "golden crowend kinglet"]
    found = misspelt(names, np.ones(len(names), dtype=np.int64))
    assert (len(names) - 1, len(names) - 2) in found
    assert len(found) < len(names) / 100


BIRDS = """Black-footed Albatross, Laysan Albatross, Sooty Albatross, Groove-billed Ani, Crested Auklet, Least Auklet,
Parakeet Auklet, Rhinoceros Auklet, Brewer Blackbird, Red-winged Blackbird, Rusty Blackbird, Yellow-headed Blackbird,
Indigo Bunting, Lazuli Bunting, Painted Bunting, Spotted Catbird, Gray Catbird, Brandt Cormorant, Pelagic Cormorant,
Red-faced Cormorant, Bronzed Cowbird, Shiny Cowbird, American Crow, Fish Crow, Black-billed Cuckoo, Mangrove Cuckoo,
Yellow-billed Cuckoo, Acadian Flycatcher, Great-Crested Flycatcher, Least Flycatcher, Olive-sided Flycatcher,
Scissor-tailed Flycatcher, Vermilion Flycatcher, Yellow-bellied Flycatcher, Horned Grebe, Pied-billed Grebe,
Western Grebe, Eared Grebe, Blue Grosbeak, Evening Grosbeak, Pine Grosbeak, Rose-breasted Grosbeak, California Gull,
Glaucous-winged Gull, Heermann Gull, Herring Gull, Ivory Gull, Ring-billed Gull, Slaty-backed Gull, Western Gull,
Anna Hummingbird, Ruby-throated Hummingbird, Rufous Hummingbird, Long-tailed Jaeger, Pomarine Jaeger, Blue Jay,
Florida Jay, Green Jay, Belted Kingfisher, Green Kingfisher, Pied Kingfisher, Ringed Kingfisher, Hooded Merganser,
Red-breasted Merganser, Hooded Oriole, Orchard Oriole, Scott Oriole, Baird Sparrow, Black-throated Sparrow,
Brewer Sparrow, Chipping Sparrow, Clay-colored Sparrow, House Sparrow, Field Sparrow, Fox Sparrow, Harris Sparrow,
Henslow Sparrow, Lincoln Sparrow, Savannah Sparrow, Seaside Sparrow, Song Sparrow, Tree Sparrow, Vesper Sparrow,
White-crowned Sparrow, White-throated Sparrow, Bank Swallow, Barn Swallow, Cliff Swallow, Tree Swallow, Artic Tern,
Black Tern, Caspian Tern, Common Tern, Elegant Tern, Forsters Tern, Least Tern, Black-capped Vireo, Blue-headed Vireo,
Philadelphia Vireo, Red-eyed Vireo, Warbling Vireo, White-eyed Vireo, Yellow-throated Vireo, Bay-breasted Warbler,
Cape May Warbler, Cerulean Warbler, Chestnut-sided Warbler, Palm Warbler, Pine Warbler, Prairie Warbler,
Prothonotary Warbler, Swainson Warbler, Red-bellied Woodpecker, Red-cockaded Woodpecker, Red-headed Woodpecker"""
CARS = """Audi S4 Sedan 2012, Audi S4 Sedan 2007, Audi S5 Coupe 2012, Audi TT Hatchback 2011, Audi TTS Coupe 2012,
Audi A5 Coupe 2012, Audi V8 Sedan 1994, BMW X3 SUV 2012, BMW X5 SUV 2007, BMW X6 SUV 2012, BMW M3 Coupe 2012,
BMW M5 Sedan 2010, Chevrolet Silverado 1500 Hybrid Crew Cab 2012, Chevrolet Silverado 1500 Extended Cab 2012,
Chevrolet Silverado 2500HD Regular Cab 2012, Dodge Caliber Wagon 2012, Dodge Caliber Wagon 2007,
Dodge Caravan Minivan 1997, Dodge Charger Sedan 2012, Dodge Challenger SRT8 2011, Ferrari 458 Italia Convertible 2012,
Ferrari 458 Italia Coupe 2012, Ford F-150 Regular Cab 2012, Ford F-150 Regular Cab 2007, Ford F-450 Super Duty 2012,
GMC Savana Van 2012, GMC Canyon Extended Cab 2012, Volvo C30 Hatchback 2012, Volvo 240 Sedan 1993"""
FOODS = """peach, perch, beef, beet, carrot, parrot, noodle, noodles, pasta, paste, lemon, melon, bread, break, apple,
apples, grape, grapes, tomato, potato, butter, bitter, batter, pepper, peppers, chicken, chickens, salmon, salami,
restaurant A, restaurant B, mapo tofu @ A, mapo tofu @ B, type 1, type 2, table 12, table 13, male, female, small,
spicy, spice, fried rice, dried rice, roast duck, roast ducks, Golden-Delicious, Red-Delicious, Oatghurt, Yoghurt,
Royal-Gala, Pink-Lady, Conference, Kaiser, Cantaloupe, Galia-Melon, Oat-Milk, Sour-Milk, Soy-Milk, Soyghurt,
Red-Grapefruit, Satsumas, Vine-Tomato, Beef-Tomato, Green-Bell-Pepper, Red-Bell-Pepper, Floury-Potato, Solid-Potato,
Sweet-Potato, northern, southern, eastern, western, upper, lower, 2012, 2013, phase ii, phase iii"""
REAL_NAMES = [name.strip() for part in (BIRDS, CARS, FOODS) for name in part.replace("\n", " ").split(",")]


def test_of_several_near_names_the_most_frequent_is_meant():
    names = ["platter", "paltterx", "platterx"]
    assert misspelt(names, np.array([2, 3, 1])) == [(2, 1)]
    assert misspelt(names, np.array([3, 2, 1])) == [(2, 0)]


def test_hints_name_at_most_three_and_end_after_a_while():
    suggestions = SpellingHints(max_count=3)
    names = {"noodles", "noodled", "noodle", "nodles", "beef"}
    hint = suggestions.hint("noodless", names)
    assert hint is not None
    assert hint.startswith("did you mean 'noodles' or")
    assert hint.count(" or ") == 2
    assert suggestions.hint("zzzzz", names) is None
    assert suggestions.hint("Beef", names) == "did you mean 'beef'?"
    assert suggestions.hint("Beef", names) is None
