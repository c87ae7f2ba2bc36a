"""The store's contract on both databases: how runs come to be, are found and are forgotten."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from types import SimpleNamespace

import pytest

from rlstudio.control.lifecycle import ENDED, Desired
from rlstudio.control.store.records import Checkpoint, Consent, RunRequest
from rlstudio.control.store.workers import SILENT_SECONDS, Workers
from rlstudio.core.errors import Conflict, LeaseLost, RunNotFound, StorageError, UserError
from rlstudio.core.run_state import OWNED, Reason, RunState
from rlstudio.experiment.folder.run_folder import RUN_ID
from rlstudio.experiment.folder.status import Status
from support.control_world import S, assert_history, in_state, owner, request

FULL = request(
    seed=7,
    total_epochs=9,
    owner="ada",
    lineage={"git": "1f2e", "packages": {"torch": "2.10"}},
    parent_id="20260101-000000-ppo-x-0000",
    parent_step=400,
    sweep="lr",
    trial=3,
    priority=-2,
    cpus=4,
    gpus=1,
    memory_mb=1 << 40,
    max_retries=2,
    stall_seconds=12.5,
    imports=("my_worlds",),
    import_path=("/somewhere",),
    notify=("tell", "me"),
)


def test_a_new_run_is_all_that_was_asked_for(store):
    run = store.create(FULL)
    assert RUN_ID.fullmatch(run.id)
    for field in fields(RunRequest):
        if field.name not in ("config_yaml", "lineage", "imports", "import_path", "notify"):
            assert getattr(run, field.name) == getattr(FULL, field.name), field.name
    assert (run.state, run.reason, run.desired, run.version, run.token, run.attempt) == (S.QUEUED, "", "run", 1, 0, 0)
    assert (run.failures, run.failed_at, run.is_managed, run.is_owned, run.exact) == (0, 0, True, False, True)
    assert (run.eval_return, run.state_hash, run.devices) == (None, None, "")
    assert store.config_yaml(run.id) == "a: 1\n"
    assert store.lineage(run.id) == FULL.lineage
    assert store.consent(run.id) == Consent(FULL.imports, FULL.import_path, FULL.notify)
    assert store.get(run.id) == run
    assert store.token(run.id) == 0
    assert_history(store, run.id)
    assert isinstance(run.status, Status)
    assert (run.status.id, run.status.state, run.status.seed) == (run.id, S.QUEUED, 7)


def test_with_an_owner_it_starts_at_once(store):
    run = store.create(request(), owner=owner(5), run_id="20260101-000000-ppo-cart-0000")
    assert (run.id, run.state, run.token, run.attempt) == ("20260101-000000-ppo-cart-0000", S.STARTING, 1, 1)
    assert run.process == owner(5)
    assert not run.is_managed
    assert [event.state for event in store.events(run.id)] == [S.QUEUED, S.STARTING]


def test_what_is_not_there(store):
    for ask in (store.get, store.config_yaml, store.lineage, store.remove):
        with pytest.raises(RunNotFound, match=r"^run 'nobody': not in the store; .*rlctl ls$"):
            ask("nobody")
    for ask in (
        lambda: store.claim("nobody", owner()),
        lambda: store.resume("nobody"),
        lambda: store.ask("nobody", Desired.STOP),
        lambda: store.reap("nobody", 1, 1, Reason.ORPHANED, ""),
    ):
        with pytest.raises(RunNotFound):
            ask()
    assert store.token("nobody") is None
    assert store.events("nobody") == store.checkpoints("nobody") == store.runs() == []
    assert (store.count(), store.ids()) == (0, set())


# -- keys and ids -----------------------------------------------------------------------------------------------------


def test_one_key_stands_for_one_launch(store):
    first = store.create(request(), key="k")
    assert store.create(request(), key="k") == first
    assert store.create(request(name="renamed"), key="k") == first
    assert store.create(request(), key="K").id != first.id
    assert store.create(request()).id != first.id
    with pytest.raises(UserError, match=rf"^key 'k': was used for another experiment, run {first.id}"):
        store.create(request(config_hash="other"), key="k")
    assert store.count() == 3
    claimed = store.claim(first.id, owner())
    assert store.create(request(), key="k", owner=owner(2)) == claimed  # it stays with whom it is
    store.ask(first.id, Desired.CANCEL)
    store.move(first.id, claimed.token, S.INTERRUPTED)
    store.remove(first.id)
    assert store.create(request(config_hash="other"), key="k").id != first.id


@pytest.mark.parametrize("key", ["", "x" * 201, "ü" * 10_000])
def test_keys_have_a_length(store, key):
    with pytest.raises(UserError, match=r"^key: has \d+ characters; give 1 to 200$"):
        store.create(request(), key=key)
    assert store.count() == 0


def test_a_taken_id_is_refused_with_and_without_a_key(store):
    store.create(request(), run_id="20260101-000000-ppo-cart-0000")
    for key in (None, "k"):
        with pytest.raises(Conflict, match="is in the store already"):
            store.create(request(), run_id="20260101-000000-ppo-cart-0000", key=key)
    assert store.count() == 1
    kept = store.create(request(), key="k")  # the refused one left no key behind
    assert store.create(request(), run_id="20260101-000000-ppo-cart-0001", key="k") == kept


def test_an_id_that_happens_twice_is_made_anew(store, monkeypatch):
    from rlstudio.control.store import moves

    ids = iter(["20260101-aaaa", "20260101-aaaa", "20260101-aaaa", "20260101-bbbb"])
    monkeypatch.setattr(moves, "new_run_id", lambda *_: next(ids))
    assert [store.create(request()).id for _ in range(2)] == ["20260101-aaaa", "20260101-bbbb"]
    monkeypatch.setattr(moves, "new_run_id", lambda *_: "20260101-aaaa")
    with pytest.raises(Exception, match=r"(?i)unique"):  # and not for ever
        store.create(request())


def test_ids_are_unique_and_numbers_never_come_back(store):
    made = [store.create(request()) for _ in range(5)]
    assert [run.seq for run in made] == sorted(run.seq for run in made)
    store.remove(made[-1].id)
    assert store.create(request()).seq > made[-1].seq
    assert len(store.ids()) == store.count() == 5


# -- lists ------------------------------------------------------------------------------------------------------------


def test_lists_are_newest_first_and_filtered(store):
    parent = store.create(request(name="parent"))
    made = [store.create(request(name=name, parent_id=parent.id), owner=owner()) for name in ("a", "b", "a")]
    store.move(made[0].id, 1, S.RUNNING)

    def ids(**how):
        return [run.id for run in store.runs(**how)]

    everything = [run.id for run in (*reversed(made), parent)]
    assert ids() == everything
    assert ids(limit=2) == everything[:2]
    assert ids(limit=0) == []
    assert ids(name="a") == [made[2].id, made[0].id]
    assert ids(name="A") == ids(name="") == []
    assert ids(states={S.STARTING}) == [made[2].id, made[1].id]
    assert ids(states=OWNED) == everything[:3]
    assert ids(states=()) == []
    assert ids(parent=parent.id) == everything[:3]
    assert ids(name="a", parent=parent.id, states={S.RUNNING}, limit=5) == [made[0].id]
    assert store.ids() == set(everything)


def test_runs_by_their_ids(store):
    for run_id in ("20260101-ab", "20260101-ac", "20260102-ab"):
        store.create(request(), run_id=run_id)

    def ids(*wanted):
        return [run.id for run in store.runs(ids=wanted)]

    assert ids("20260101-ab", "20260102-ab", "20260101-ab") == ["20260102-ab", "20260101-ab"]
    assert store.names() == [(run_id, "cartpole") for run_id in ("20260101-ab", "20260101-ac", "20260102-ab")]
    for nothing in ("", "x", "2026010_", "2026%", "20260101-AB", "\\", "\0", "20260101-ab\0", "\ud800", "'"):
        assert ids(nothing) == []
    assert ids() == []


def test_no_two_new_runs_end_alike(store, monkeypatch):
    """The end of an id is the handle of its run."""
    from rlstudio.control.store import moves

    ids = iter(["20260101-cart-aaaa", "20260102-cart-aaaa", "20260103-cart-bbbb"])
    monkeypatch.setattr(moves, "new_run_id", lambda *_: next(ids))
    assert [store.create(request()).id for _ in range(2)] == ["20260101-cart-aaaa", "20260103-cart-bbbb"]


def test_what_a_user_says_of_a_run_disturbs_nobody(store):
    run = in_state(store, S.RUNNING)
    assert (run.tags, run.note) == ((), "")
    said = store.annotate(run.id, tags=["b", "a", "b"], note="näïve\nthree lines\n")
    assert (said.tags, said.note, said.version, said.token) == (
        ("b", "a"),
        "näïve\nthree lines\n",
        run.version,
        run.token,
    )
    store.beat(run.id, run.token, 1, {"env_steps": 5, "train_return": float("nan")})
    assert (store.get(run.id).tags, store.get(run.id).train_return) == (("b", "a"), None)
    assert store.annotate(run.id, tags=()).note == said.note
    assert store.annotate(run.id) == store.get(run.id)
    assert_history(store, run.id)
    with pytest.raises(RunNotFound):
        store.annotate("20260101-none", note="x")


# -- odd words and numbers --------------------------------------------------------------------------------------------

WORDS = [
    "",
    " ",
    "Ünïcödé 🤖 \u202e",
    "a\nb\tc",
    "'; DROP TABLE run; --",
    "%s %(x)s {} \\",
    "long" * 50_000,
    "x" * 3000,
]
WORDS.append("".join(chr(0x4E00 + n * 7919 % 20000) for n in range(9000)))  # nothing that a database could compress


@pytest.mark.parametrize("words", WORDS, ids=lambda words: ascii(words[:12]))
def test_any_words_are_kept(store, words):
    run = store.create(request(name=words, owner=words, config_yaml=words, lineage={words: words}), key="k")
    claimed = store.claim(run.id, owner())
    failed = store.move(run.id, claimed.token, S.FAILED, Reason.INTERNAL, words)
    assert (failed.name, failed.owner, failed.message) == (words, words, words)
    assert store.config_yaml(run.id) == words
    assert store.lineage(run.id) == {words: words}
    assert [found.id for found in store.runs(name=words)] == [run.id]
    assert_history(store, run.id)


@pytest.mark.parametrize(("words", "kept"), [("a\0b", "a�b"), ("a\udcffb", "a?b"), ("\ud800", "?")])
def test_words_that_no_database_takes_do_not_lose_a_run(store, words, kept):
    """Error messages and environment names come from anywhere."""
    run = in_state(store, S.RUNNING, name=words)
    failed = store.move(run.id, run.token, S.FAILED, Reason.ENV_FAULT, words)
    assert (failed.message, failed.name) == (kept, kept)
    assert [found.id for found in store.runs(name=words)] == [run.id]
    with pytest.raises(RunNotFound):
        store.get(words)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_is_left_out(store, bad):
    run = in_state(store, S.RUNNING)
    facts = {"env_steps": 10, "eval_return": bad, "eval_interval": (bad, 2.0)}
    store.beat(run.id, run.token, 1, facts)
    found = store.get(run.id)
    assert (found.env_steps, found.eval_return, found.eval_low, found.eval_high) == (10, None, None, 2.0)
    assert found.status.eval_interval is None


def test_facts_travel_whole(store):
    run = in_state(store, S.RUNNING)
    status = Status(
        id=run.id,
        name="x",
        state=S.RUNNING,
        config_hash="new",
        env_steps=1 << 50,
        gradient_steps=5,
        epoch=3,
        total_epochs=8,
        eval_return=-0.0,
        eval_interval=(-1.5, 1e308),
        state_hash="f" * 64,
        exact=False,
        exact_reason="another machine",
    )
    store.beat(run.id, run.token, 7, status.facts())
    assert store.get(run.id).status.facts() == status.facts()
    assert store.get(run.id).progress == 7
    ended = store.move(run.id, run.token, S.COMPLETED, facts=status.facts() | {"eval_interval": None, "exact": True})
    assert (ended.status.eval_interval, ended.exact, ended.epoch) == (None, True, 3)


# -- taken in, and forgotten ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", RunState)
def test_a_run_from_elsewhere_is_taken_in(store, state):
    facts = {"env_steps": 500, "eval_return": 3.0, "eval_interval": (2.0, 4.0), "state_hash": "h"}
    found = [{"step": step, "state_hash": f"h{step}", "manifest_sha256": "m"} for step in (100, 500)]
    run = store.adopt(FULL, "20260101-adopted", state, Reason.ADOPTED, facts, found)
    assert run == store.get(run.id)
    assert run.state == (S.INTERRUPTED if state in OWNED else state)  # nobody has it
    assert not run.is_owned
    assert (run.env_steps, run.eval_high, run.state_hash) == (500, 4.0, "h")
    assert [entry.step for entry in store.checkpoints(run.id)] == [500, 100]
    if state != S.QUEUED:
        assert run.reason == Reason.ADOPTED
    assert_history(store, run.id)
    with pytest.raises(Conflict, match="in the store already"):
        store.adopt(FULL, run.id, state, Reason.NONE, {})
    assert store.count() == 1


def test_a_run_that_was_removed_and_taken_in_again_does_not_know_its_old_owner(store):
    run = in_state(store, S.RUNNING)
    reaped = store.reap(run.id, run.token, run.heartbeat, Reason.ORPHANED, "")
    store.remove(run.id)
    for act in (
        lambda: store.move(run.id, run.token, S.COMPLETED),
        lambda: store.beat(run.id, run.token, 1, {}),
        lambda: store.publish(run.id, run.token, []),
        lambda: store.hand_over(run.id, run.token, owner(2)),
    ):
        with pytest.raises(LeaseLost, match="removed; writing nothing more"):
            act()
    store.adopt(request(), run.id, S.INTERRUPTED, Reason.ORPHANED, {})
    again = store.resume(run.id, owner=owner(2))
    assert again.token not in range(reaped.token + 1)
    with pytest.raises(LeaseLost):
        store.move(run.id, run.token, S.COMPLETED)
    assert store.get(run.id) == again


@pytest.mark.parametrize("state", RunState)
def test_only_a_run_that_nobody_has_is_forgotten(store, state):
    run = in_state(store, state)
    other = in_state(store, S.RUNNING)
    store.publish(other.id, other.token, [{"step": 1, "state_hash": "h", "manifest_sha256": "m"}])
    if state in OWNED:
        store.publish(run.id, run.token, [{"step": 1, "state_hash": "h", "manifest_sha256": "m"}])
        with pytest.raises(Conflict, match=rf"is {state}; end it first with: rlctl stop {run.id}"):
            store.remove(run.id)
        assert store.get(run.id) == run
        return
    store.remove(run.id)
    with pytest.raises(RunNotFound):
        store.get(run.id)
    assert store.events(run.id) == store.checkpoints(run.id) == []
    assert store.get(other.id) == other
    assert len(store.events(other.id)) == 3
    assert len(store.checkpoints(other.id)) == 1


def test_checkpoints_are_those_told_last(store):
    run = in_state(store, S.RUNNING)
    rows = [{"step": step, "state_hash": f"h{step}", "manifest_sha256": f"m{step}"} for step in (1, 1 << 40, 5)]
    store.publish(run.id, run.token, rows)
    assert [entry.step for entry in store.checkpoints(run.id)] == [1 << 40, 5, 1]
    store.publish(run.id, run.token, rows[:1])
    assert store.checkpoints(run.id) == [Checkpoint(1, "h1", "m1", run.token)]
    with pytest.raises(Exception, match=r"(?i)unique"):
        store.publish(run.id, run.token, [rows[1], rows[1]])
    assert store.checkpoints(run.id) == [Checkpoint(1, "h1", "m1", run.token)]  # all of it, or nothing
    store.publish(run.id, run.token, [])
    assert store.checkpoints(run.id) == []


def test_devices_are_given_by_the_owner(store):
    run = in_state(store, S.STARTING)
    store.assign(run.id, run.token, [0, 3])
    assert store.get(run.id).device_list == [0, 3]
    with pytest.raises(LeaseLost):
        store.assign(run.id, run.token + 1, [1])
    store.assign(run.id, run.token, [])
    assert store.get(run.id).device_list == []


def test_workers_come_and_go(store, database):
    from rlstudio.control.store.resources import Slots
    from rlstudio.core.host.process import this_process

    workers = Workers(database)
    workers.register("w1", this_process(), Slots(2, 1, 8000))
    workers.register("w2", owner(1, host=this_process().host), Slots(2))  # of another boot: gone
    workers.beat("w1", 12.5, 3)
    (known,) = workers.alive()
    assert (known.id, known.process, known.cpus, known.throughput) == ("w1", this_process(), 2, 12.5)
    run = store.create(request())
    assert not workers.remove_if_idle("w1", [])
    large = store.create(replace(request(), cpus=64))
    assert [worker.id for worker in workers.alive()] == ["w1"]
    store.ask(run.id, Desired.CANCEL)
    assert not workers.remove_if_idle("w1", [])
    assert workers.remove_if_idle("w1", [large.id])  # what could never run here keeps nobody
    store.ask(large.id, Desired.CANCEL)
    assert workers.alive() == []
    workers.remove("w1")


def test_a_worker_of_another_host_lives_as_long_as_its_heart_beats(store, database):
    """No two clocks are compared: what counts is how long we saw no beat."""
    from rlstudio.control.store.resources import Slots

    now = [100.0]
    workers = Workers(database, clock=lambda: now[0])
    workers.register("far", owner(), Slots(2))
    (known,) = workers.alive()
    assert not known.is_certain
    for _ in range(3):
        now[0] += SILENT_SECONDS - 1
        assert workers.beat("far", 0.0, 0)
        (known,) = workers.alive()
        assert known.is_certain
    now[0] += SILENT_SECONDS - 1
    assert len(workers.alive()) == 1
    assert Workers(database, clock=lambda: now[0]).alive() != []  # who looks for the first time cannot know
    now[0] += 1
    assert workers.alive() == []
    assert Workers(database).alive() == []  # forgotten for all
    assert not workers.beat("far", 0.0, 0)  # so that it registers again, should it come back


@pytest.mark.parametrize("lives", [True, False])
def test_a_launch_waits_for_a_sign_of_life_and_no_longer(store, monkeypatch, lives):
    from rlstudio.control.queue import service
    from rlstudio.control.store.resources import Slots

    now = [0.0]
    workers = Workers(store.database, clock=lambda: now[0])
    workers.register("far", owner(), Slots(2))

    def sleep(seconds):
        now[0] += seconds
        if lives and now[0] == 4 * seconds:
            workers.beat("far", 0.0, 0)

    monkeypatch.setattr(service.time, "sleep", sleep)
    monkeypatch.setattr(service, "ensure_directory", lambda path: pytest.fail("one is started") if lives else None)
    workspace = SimpleNamespace(workers=workers, state_dir=None, url="sqlite:")
    monkeypatch.setattr(service, "Folder", lambda path: (_ for _ in ()).throw(StorageError("started")))
    if lives:
        service.ensure_worker(workspace)
        service.ensure_worker(workspace)  # seen a moment ago: nothing to wait for
        assert now[0] == 4 * service.WATCH_SECONDS
    else:
        with pytest.raises(StorageError, match="started"):
            service.ensure_worker(workspace)
        assert now[0] == SILENT_SECONDS
        assert workers.alive() == []


def test_ended_and_owned_divide_the_states():
    assert ENDED | OWNED | {S.QUEUED} == set(RunState)
    assert not ENDED & OWNED
