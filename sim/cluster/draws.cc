#include "sim/cluster/draws.h"

#include <cmath>

#include "base/check.h"

namespace lagoon {
namespace {

constexpr double kLn2 = 0.693147180559945309417;
constexpr double kPi = 3.14159265358979323846;

}  // namespace

double PortableLog(double x) {
  LAGOON_CHECK(x > 0);
  int exponent = 0;
  double part = std::frexp(x, &exponent);  // exact; 0.5 to 1
  if (part < 0.70710678118654752) {
    part *= 2;
    --exponent;
  }
  // ln part = 2 artanh((part - 1) / (part + 1)), and the argument is at most 0.172.
  const double s = (part - 1) / (part + 1), square = s * s;
  double sum = 0;
  for (int power = 21; power >= 1; power -= 2) sum = sum * square + 1.0 / power;
  return exponent * kLn2 + 2 * s * sum;
}

double PortableExp(double x) {
  LAGOON_CHECK(x >= -700 && x <= 700);
  const double twos = std::floor(x / kLn2 + 0.5);
  const double rest = x - twos * kLn2;  // at most 0.35
  double sum = 1;
  for (int i = 13; i >= 1; --i) sum = 1 + sum * rest / i;
  return std::ldexp(sum, static_cast<int>(twos));  // exact
}

double PortableSine(double turns) {
  LAGOON_CHECK(turns >= -1e9 && turns <= 1e9);
  double part = turns - std::floor(turns);  // 0 to 1
  const double sign = part < 0.5 ? 1 : -1;
  if (part >= 0.5) part -= 0.5;
  if (part > 0.25) part = 0.5 - part;
  const double angle = 2 * kPi * part, square = angle * angle;  // at most a quarter turn
  double sum = 1;
  for (int i = 12; i >= 2; i -= 2) sum = 1 - sum * square / (i * (i + 1.0));
  return sign * angle * sum;
}

double DrawExponential(Random& random) { return -PortableLog(1 - random.Uniform()); }

double DrawGamma(double cv, Random& random) {
  LAGOON_CHECK(cv >= 0.05 && cv <= 16);
  const double shape = 1 / (cv * cv);
  // A shape below 1 is drawn as one above 1, times a power of a uniform draw.
  const double boosted = shape < 1 ? shape + 1 : shape;
  const double d = boosted - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double normal = random.Normal();
    const double root = 1 + c * normal;
    if (root <= 0) continue;
    const double v = root * root * root;
    const double u = 1 - random.Uniform();
    if (PortableLog(u) >= 0.5 * normal * normal + d - d * v + d * PortableLog(v)) continue;
    double drawn = d * v;
    if (shape < 1) {
      const double power = PortableLog(1 - random.Uniform()) / shape;
      drawn *= power < -700 ? 0 : PortableExp(power);
    }
    return drawn / shape;
  }
}

}  // namespace lagoon
