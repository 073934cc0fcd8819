"""The folder as TensorFlow Datasets, TFX and tf.data read it."""
