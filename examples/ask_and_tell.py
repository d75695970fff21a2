"""A loop of one's own: acetune decides when to check and which trials to stop."""

import random

from acetune import ACE, Constraint, Stopper

random.seed(3)
stopper = Stopper(
    objective="loss",
    mode="min",
    constraints=[Constraint("latency_ms", upper=8.0)],
    policy=ACE(truncation=0.25, interval=1),
)
for number in range(20):
    quality, speed = random.random(), random.uniform(2, 12)
    trial = stopper.start(f"trial-{number}", total_steps=10)
    for step in range(1, 11):
        loss = quality + 1 / step
        due = trial.check_due(step, loss)  # the step whose checkpoint to check now, or None
        latency = {"latency_ms": speed + random.gauss(0, 0.2)} if due else None
        decision = trial.observe(
            step,
            loss,
            latency,
            primary_cost_s=0.010,
            constraint_cost_s=0.020 if due else None,
        )
        if decision.stop:
            print(f"trial-{number}: {decision.reason}")
            break

print("best feasible:", stopper.best)
