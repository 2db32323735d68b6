"""Minterms: sets of characters as numbers, and back."""

from agent.constraint.languages.code_points import EVERY_CODE_POINT, letters
from agent.constraint.lark.alphabet import Alphabet, bits

SMALL = ((97, 122),)
VOWELS = letters("aeiou")


def test_masks_behave_as_the_classes_do() -> None:
    alphabet = Alphabet([SMALL, VOWELS])
    small, vowels = alphabet.mask(SMALL), alphabet.mask(VOWELS)
    assert small & vowels == vowels
    assert small != vowels
    assert alphabet.ranges(small & ~vowels) == letters("bcdfghjklmnpqrstvwxyz")


def test_every_character_is_in_one_minterm() -> None:
    alphabet = Alphabet([SMALL, VOWELS, ((0x4E00, 0x9FFF),)])
    assert alphabet.ranges(alphabet.every_character) == EVERY_CODE_POINT
    pieces = [alphabet.ranges(1 << minterm) for minterm in bits(alphabet.every_character)]
    assert sum(last - first + 1 for ranges in pieces for first, last in ranges) == 0x110000 - 0x800
    assert alphabet.token & alphabet.every_character == 0


def test_characters_that_begin_with_the_same_byte_are_found() -> None:
    alphabet = Alphabet([letters("é"), SMALL])
    near = alphabet.ranges(alphabet.with_same_first_byte(alphabet.mask(letters("é"))))
    assert near == ((0xC0, 0xFF),)
    assert alphabet.with_same_first_byte(alphabet.mask(SMALL)) == alphabet.mask(SMALL)


def test_bits_of_long_and_short_numbers() -> None:
    for places in ([0, 3, 70], list(range(0, 900, 2)), [4000, 9000]):
        assert bits(sum(1 << place for place in places)) == places
