"""Results to text: every format is a pure function of a `Run`, and knows nothing but results."""
