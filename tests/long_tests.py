"""Tests that take long for what they add: `make test` leaves them out, `make test-all` runs them.

On two slow cores all tests take over twenty minutes; these take a quarter of that.
"""

from __future__ import annotations

LONG = (
    "tests/grid_benchmark/test_grid_benchmark.py::test_from_end_to_end",
    "tests/grid_benchmark/test_grid_benchmark.py::test_a_run_that_was_broken_off_goes_on",
    "tests/grid_benchmark/test_peers.py::test_races_that_were_broken_off_go_on_from_the_file",
    "tests/grid_benchmark/test_population.py::test_from_end_to_end",
    # with Ray, or with a framework that takes long to load; others of their kind are not here
    "tests/ray_tune/test_faults.py::test_a_node_is_taken_away",
    "tests/ray_tune/test_faults.py::test_in_a_cluster_that_asks_for_a_token",
    "tests/ray_tune/test_faults.py::test_two_experiments_at_once_in_one_cluster",
    "tests/run/test_ray_faults.py::test_two_studies_at_once_in_one_cluster",
    "tests/constraints/test_latency_ray.py",
    "tests/ray_tune/test_misbehaving.py",
    "tests/run/test_interrupt.py::test_one_signal_ends_cleanly_and_the_next_call_goes_on[2-ray]",
    "tests/ray_tune/test_distributed.py::test_both_ranks_end_at_the_same_step[True]",
    "tests/test_documentation_frameworks.py::test_the_code_of_a_page_runs[howto/from_ray_tune.md]",
    "tests/test_documentation_frameworks.py::test_the_code_of_a_page_runs[howto/cluster.md]",
    "tests/test_documentation_frameworks.py::test_the_code_of_a_page_runs[howto/keras.md]",
    "tests/test_documentation_frameworks.py::test_the_code_of_a_page_runs[howto/lightning.md]",
    "tests/test_documentation_frameworks.py::test_the_code_of_a_page_runs[howto/trainer.md]",
    "tests/test_docs.py::test_example_runs[ray_tune.py]",
    "tests/test_docs.py::test_example_runs[two_constraints_pytorch.py]",
    # every page, where one of each kind is looked at anyway
    "tests/test_documentation.py::test_every_page_is_for_everyone_and_fits_a_phone",
    "tests/test_documentation.py::test_nothing_on_the_site_comes_from_the_network",
    # simulations, and rounds of the campaign of faults
    "tests/test_chaos.py",
    "tests/study/test_false_certificates.py::test_no_more_than_promised[both",
    "tests/study/test_false_certificates.py::test_no_more_than_promised[the same rows",
    "tests/paper_experiments/test_reproduce_live.py::"
    "test_every_study_has_the_same_budget_in_one_session",
    "tests/test_docs.py::test_the_commands_of_the_replay_run",
    "tests/cli/test_cli.py::test_demo_takes_the_real_file",
)


def is_long(test: str) -> bool:
    """Whether a test, or its file, is in the list."""
    return test.startswith(LONG)
