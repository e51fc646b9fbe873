import pytest

from storage.catalog.videos.jobs import TRANSCODE
from storage.leases import HEARTBEAT_SECONDS, LEASE_US, LeaseLost, WorkKind
from tests.support.storage.leases import held_job


def test_a_job_is_given_up_after_three_failures_and_not_before() -> None:
    assert [held_job(failures=failures).spent for failures in range(5)] == [False] * 3 + [True] * 2


def test_each_failure_makes_a_job_wait_longer() -> None:
    assert [TRANSCODE.pause_us(failures) for failures in (1, 2)] == [5_000_000, 20_000_000]


def test_a_kind_says_how_often_it_may_fail_and_which_pauses_cannot_be() -> None:
    patient = WorkKind("patient", (60, 3600))
    assert patient.most_failures == 3
    assert [patient.pause_us(failures) for failures in (1, 2)] == [60_000_000, 3_600_000_000]
    assert patient.endless_pause_us > 3_600_000_000
    impatient = WorkKind("impatient", ())
    assert (impatient.most_failures, impatient.endless_pause_us > 0) == (1, True)


def test_a_lease_outlives_two_beats_that_failed() -> None:
    assert LEASE_US >= 3 * HEARTBEAT_SECONDS * 1_000_000


def test_the_error_of_a_lost_job_names_the_job_and_not_its_owner() -> None:
    with pytest.raises(LeaseLost, match="job 7") as caught:
        raise LeaseLost(held_job(7))
    assert caught.value.lease.id == 7
    assert "me" not in str(caught.value)
