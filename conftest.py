"""Settings that must stand before any test or doctest imports a framework."""

import os
import tempfile

os.environ.setdefault("KERAS_BACKEND", "torch")  # Keras takes TensorFlow unless it is told
# threads that wait give way: spinning costs most where two test processes share two cores
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# tests leave the user's own key alone
os.environ["XDG_STATE_HOME"] = f"{tempfile.gettempdir()}/acetune-tests-{os.getuid()}"
