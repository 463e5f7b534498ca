#pragma once

// Functions and distributions that give the same bits on every machine: those of the C library and
// of <random> differ between platforms. They use only operations that IEEE 754 rounds exactly.

#include "base/random.h"

namespace lagoon {

/// The natural logarithm of `x` > 0, finite. Within 1e-15 relative to max(1, |ln x|).
double PortableLog(double x);
/// e^x for |x| <= 700. Within 1e-14, relative.
double PortableExp(double x);
/// sin(2 pi turns) for |turns| <= 1e9. Within 1e-7.
double PortableSine(double turns);

/// With mean 1.
double DrawExponential(Random& random);
/// A gamma distribution with mean 1 whose standard deviation is `cv`, 0.05 to 16 (Marsaglia and
/// Tsang 2000).
double DrawGamma(double cv, Random& random);

}  // namespace lagoon
