"""Compilers are asked when somebody wants to know, also those whose model is gone."""

from agent.core.statistics import CompilerStatistics, LoadStatistics
from agent.figure_book import FigureBook
from tests.support.fake_model import FakeModel


def compiled(model: FakeModel, count: int) -> None:
    model.constraints.counted = CompilerStatistics(compiles=count)


def test_what_a_compiler_counted_stays_when_its_model_goes() -> None:
    book, first, second = FigureBook("p", LoadStatistics), FakeModel(), FakeModel()
    seen = []
    for model, count, shown in ((first, 2, first), (first, 3, first), (first, 5, None), (second, 1, second)):
        compiled(model, count)
        seen.append(book.figures(shown).constraints_compiled_total)
    assert seen == [2, 3, 5, 6]


def test_what_was_compiled_after_the_last_look_counts_too() -> None:
    book, first, second = FigureBook("p", LoadStatistics), FakeModel(), FakeModel()
    compiled(first, 2)
    book.figures(first)
    compiled(first, 4)
    assert book.figures(second).constraints_compiled_total == 4
    compiled(second, 1)
    assert book.figures(second).constraints_compiled_total == 5


def test_an_agent_without_a_model_has_figures() -> None:
    figures = FigureBook("p", lambda: LoadStatistics(failed=2)).figures(None)
    assert (figures.started_at_id, figures.model_loads_failed_total, figures.steps_total) == ("p", 2, 0)
