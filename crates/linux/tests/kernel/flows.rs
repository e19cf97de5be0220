//! The control flows of the scheduler with kernel objects.
