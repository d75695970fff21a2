"""A decision on a report that the history already holds, as if it did not."""

from __future__ import annotations

from acetune.core.decision import Decision
from acetune.core.history import History
from acetune.core.observation import Observation
from acetune.core.trial_record import Progress, TrialRecord
from acetune.policies.policy import Policy
from acetune.policies.stopper import at_last_step


def decide_again(
    record: TrialRecord, report: Observation, policy: Policy, history: History
) -> Decision:
    """What the policy says of ``report`` when it and what its trial reported later are left out.

    Asked in a study of Optuna, when a report was read from the storage before its own trial asked
    or when a trial asks twice; and when a study goes on under other limits. The best loss of the
    history still counts the report; that changes nothing, for the policies that look at it go on
    with any trial that leads.
    """
    before = _before(record, report.step)
    filing = policy.file(before, report)
    past = history.without(record, report.step, unlearn=policy.learns)
    decision = policy.decide(before, report, filing, past)
    if decision.stop and report.step == record.progress.total_steps:
        return at_last_step(decision)
    return decision


def _before(record: TrialRecord, step: int) -> TrialRecord:
    """A trial as it was before it reported ``step``."""
    progress = Progress(record.progress.total_steps, record.progress.interval)
    before = TrialRecord(record.id, record.attempt, record.order, progress, record.cost_ratio)
    log = record.log
    for index, reported in enumerate(log.step):
        if reported >= step:
            break
        log.copy_to(before.log, index)
    progress.relive(record, step - 1)
    before.filings = [filing for filing in record.filings if filing[0] < step]
    before.verdicts = [verdict for verdict in record.verdicts if verdict[0] < step]
    return before
