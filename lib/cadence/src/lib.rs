//! When the next tick is due: missed-tick policy of a periodic timer as a pure function.
