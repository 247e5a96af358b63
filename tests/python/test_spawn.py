"""spawn: results, the first failure, and nobody left behind."""

from __future__ import annotations

import multiprocessing
import time

import pytest
import rank_functions
import sennit


@pytest.mark.parametrize("threads", [True, False])
def test_results_come_in_the_order_of_ranks(threads: bool) -> None:
    answers = sennit.spawn(rank_functions.add_arguments, 3, 10, 5, threads=threads)
    assert answers == [15, 16, 17]


@pytest.mark.parametrize("threads", [True, False])
def test_the_first_exception_is_raised_and_names_its_rank(threads: bool) -> None:
    start = time.monotonic()
    with pytest.raises(LookupError, match="what rank 2 did not find") as caught:
        sennit.spawn(rank_functions.raise_in_rank_two, 4, threads=threads)
    assert time.monotonic() - start < 20
    assert "raised by rank 2 of 4" in str(caught.value.__cause__)
    assert "raise_in_rank_two" in str(caught.value.__cause__)
    assert multiprocessing.active_children() == []


def test_a_killed_process_is_named() -> None:
    with pytest.raises(sennit.RankFailed) as caught:
        sennit.spawn(rank_functions.kill_rank_one, 3)
    assert caught.value.blamed_ranks == (1,)
    assert multiprocessing.active_children() == []


def test_a_result_that_cannot_be_pickled_is_an_error_that_says_so() -> None:
    with pytest.raises(TypeError, match="result of rank 0 cannot be pickled"):
        sennit.spawn(rank_functions.return_what_cannot_be_pickled, 2)


def test_no_ranks_are_refused() -> None:
    with pytest.raises(sennit.InvalidArgument, match="at least one rank"):
        sennit.spawn(rank_functions.add_arguments, 0, 1, 2)
