"""Every race has its story, and every guard of the store and the reaper is needed by one of them."""

from __future__ import annotations

import pytest

from rlstudio.control.store.store import Store
from support.control_world import World, clear
from support.mutants import MUTANTS
from support.traces import TRACES


@pytest.mark.parametrize("trace", TRACES.values(), ids=TRACES)
def test_trace(store, monkeypatch, trace):
    trace(World(store, monkeypatch.setattr))


NOTICED_BY = {
    "no_token_check_in_move": "who_thaws_cannot_say_an_end",
    "no_token_check_in_beat": "who_thaws_cannot_beat",
    "no_token_check_in_publish": "who_thaws_cannot_publish",
    "no_token_check_in_hand_over": "a_scheduler_that_dies_between_claim_and_hand_over",
    "an_ended_run_still_has_an_owner": "who_ended_writes_nothing_more",
    "no_boot_id_check": "after_a_reboot_nobody_is_who_he_was",
    "no_pid_start_check": "a_number_that_was_given_again_is_not_the_owner",
    "no_host_check": "after_a_reboot_nobody_is_who_he_was",
    "nobody_is_ever_gone": "a_killed_process_is_found_at_the_next_look",
    "no_token_bump_on_reap": "who_was_given_up_sees_it_in_the_token_at_once",
    "no_token_bump_on_claim": "each_owner_has_a_number_of_its_own",
    "a_resumed_run_is_still_asked_to_stop": "a_stop_that_comes_while_it_starts_is_heard",
    "no_event_is_written": "a_killed_process_is_found_at_the_next_look",
    "any_move_is_allowed": "a_cancellation_outlives_a_stop",
    "a_run_is_claimed_in_any_state": "a_killed_process_is_found_at_the_next_look",
    "reaping_ignores_a_fresh_heartbeat": "a_heartbeat_between_the_look_and_the_deed_counts",
    "reaping_ignores_a_new_owner": "a_heartbeat_between_the_look_and_the_deed_counts",
    "a_key_is_not_unique": "a_run_that_came_back_from_its_folder_forgot_its_owners",
    "a_key_forgets_its_config": "an_answer_that_was_lost_is_asked_for_again",
    "a_cancellation_is_lost_by_a_stop": "a_cancellation_outlives_a_stop",
    "a_stop_is_a_mere_signal": "a_stop_whose_process_dies_stays_stopped",
    "a_stop_while_it_waits_is_forgotten": "a_stop_a_moment_after_the_crash",
    "a_retry_after_any_end": "a_stop_whose_process_dies_stays_stopped",
    "failures_are_not_counted": "a_crash_loop_ends",
    "falling_back_counts_as_progress": "a_crash_loop_ends",
    "tokens_of_a_run_from_elsewhere_begin_at_nothing": "a_run_that_came_back_from_its_folder_forgot_its_owners",
    "a_run_is_handed_over_at_any_time": "what_beats_but_gets_nowhere_is_hung",
    "the_wall_clock_is_used": "clocks_on_the_wall_may_jump",
    "silence_is_counted_from_the_first_look": "the_healthy_are_left_alone",
    "silence_means_nothing": "another_host_is_judged_by_its_silence",
    "progress_means_nothing": "what_beats_but_gets_nowhere_is_hung",
}
"""Each guard that can be taken away, and a story that does not end as it must without it."""


def ends_well(database, story: str) -> bool:
    clear(database)
    with pytest.MonkeyPatch.context() as world:
        try:
            TRACES[story](World(Store(database), world.setattr))
        except (Exception, pytest.fail.Exception):
            return False
    return True


@pytest.mark.parametrize("guard", MUTANTS)
def test_a_missing_guard_is_noticed(sqlite_database, monkeypatch, guard):
    story = NOTICED_BY[guard]
    assert ends_well(sqlite_database, story)
    MUTANTS[guard](monkeypatch.setattr)
    assert not ends_well(sqlite_database, story), f"{story} does not need it"


def test_there_are_enough():
    assert len(TRACES) >= 12
    assert len(MUTANTS) >= 10
