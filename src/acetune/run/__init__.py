"""Running a study: ``tune()``, the driver, and its workers on this machine or in a Ray cluster."""
