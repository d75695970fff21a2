"""Tests that take long for what they add: `make test` leaves them out, `make test-all` runs them.

They take about a third of the time of all. Of most kinds some are not here: faults of each engine,
pages with each kind of framework, each kind of page in a browser.
"""

from __future__ import annotations

from collections.abc import Iterable

_RAY_TUNE = (
    "test_distributed.py::test_both_ranks_end_at_the_same_step[True]",
    "test_misbehaving.py",
    *(
        f"test_faults.py::{name}"
        for name in (
            "test_a_node_is_taken_away",
            "test_in_a_cluster_that_asks_for_a_token",
            "test_two_experiments_at_once_in_one_cluster",
            "test_the_broadcast_is_killed",
            "test_a_worker_is_killed[False]",
        )
    ),
    *(
        f"test_scheduler.py::{name}"
        for name in (
            "test_a_class_trainable",
            "test_a_name_that_comes_back_with_another_configuration",
            "test_a_search_of_ray_sees_the_best_checkpoint",
            "test_a_trainable_that_fails_before_it_reports",
            "test_a_trial_that_fails_again_before_it_reports",
            "test_an_experiment_cut_off_leaves_interrupted_trials",
            "test_configurations_that_json_cannot_say",
            "test_models_stay_in_the_experiment_where_the_study_file_is_elsewhere",
            "test_no_notice_where_the_check_at_the_end_cannot_win",
            "test_numbers_of_trials",
            "test_one_scheduler_for_two_experiments_in_a_thread",
            "test_one_that_restarts_at_step_1_is_another_attempt[class]",
            "test_optunas_search_in_ray",
            "test_rays_own_criteria_end_trials_too",
            "test_the_check_that_is_due_at_an_early_end",
            "test_the_forest_learns_from_every_report",
            "test_what_commits_of_an_experiment_outlast",
        )
    ),
    *(
        f"test_same_decisions.py::test_complete_curves[{policy}]"
        for policy in ("ace2", "ace-hard", "asha", "asha-stratum-adaptive", "median")
    ),
    "test_same_decisions.py::test_curves_that_end_early",
)
_RUN = (
    "test_interrupt.py::test_one_signal_ends_cleanly_and_the_next_call_goes_on[2-ray]",
    "test_ray_engine.py::test_a_cluster_that_is_not_there_or_too_small",
    "test_ray_engine.py::test_some_workers_find_room_and_others_wait",
    "test_ray_faults.py::test_a_deed_of_training_code_hurts_its_own_trial_only",
    "test_ray_faults.py::test_a_node_that_is_removed",
    "test_ray_faults.py::test_two_studies_at_once_in_one_cluster",
    "test_ray_faults.py::test_workers_killed_in_the_middle_of_things",
    "test_stopped.py::test_a_study_that_was_stopped_fails_no_healthy_trial[check-the driver]",
    "test_stopped.py::test_a_study_that_was_stopped_fails_no_healthy_trial[report-everything]",
    "test_stopped.py::test_a_study_that_was_stopped_fails_no_healthy_trial[report-the driver]",
)
_PAGES = ("from_ray_tune", "slurm", "keras", "lightning", "trainer", "catboost")
_EXAMPLES = ("ray_tune", "two_constraints_pytorch", "latency_xgboost", "lightgbm_sklearn_api")
LONG = (
    *(f"tests/ray_tune/{name}" for name in _RAY_TUNE),
    *(f"tests/run/{name}" for name in _RUN),
    *(
        f"tests/test_documentation_frameworks.py::test_the_code_of_a_page_runs[howto/{page}.md]"
        for page in _PAGES
    ),
    *(f"tests/test_docs.py::test_example_runs[{example}.py]" for example in _EXAMPLES),
    "tests/test_docs.py::test_the_commands_of_the_replay_run",
    "tests/cli/test_cli.py::test_demo_takes_the_real_file",
    "tests/constraints/test_latency_ray.py",
    "tests/searchers/test_flaml.py::test_suggestions_are_the_same_with_and_without_ray",
    # in a browser: every page, where one of each kind is looked at anyway
    "tests/test_documentation.py::test_every_page_is_for_everyone_and_fits_a_phone",
    "tests/test_documentation.py::test_nothing_on_the_site_comes_from_the_network",
    "tests/report/test_report_page.py::test_odd_numbers_and_long_names[1e-300]",
    # simulations, and benchmarks from end to end
    "tests/grid_benchmark/test_grid_benchmark.py::test_a_run_that_was_broken_off_goes_on",
    "tests/grid_benchmark/test_grid_benchmark.py::test_from_end_to_end",
    "tests/grid_benchmark/test_peers.py::test_races_that_were_broken_off_go_on_from_the_file",
    "tests/grid_benchmark/test_population.py::test_from_end_to_end",
    "tests/paper_experiments/test_reproduce_live.py::"
    "test_every_study_has_the_same_budget_in_one_session",
    "tests/replay/test_recorded_tables.py::test_the_picture_of_the_paper_comes_out",
    "tests/study/test_false_certificates.py::test_no_more_than_promised[both, with tricks]",
)


def is_long(test: str, among: Iterable[str] = LONG) -> bool:
    """Whether a test, its function or its file is in the list."""
    return any(test == long or test.startswith((f"{long}::", f"{long}[")) for long in among)
