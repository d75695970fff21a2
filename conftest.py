"""Settings that must stand before any test or doctest imports a framework."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")  # Keras takes TensorFlow unless it is told
