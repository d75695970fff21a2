"""Settings that must stand before any test or doctest imports a framework."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")  # Keras takes TensorFlow unless it is told
# threads that wait give way: spinning costs most where two test processes share two cores
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
