#pragma once

// Fits latency models to measured times (InSS 4.1), and says how far predictions are from times
// that the fit has not seen.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cluster/interference/latency_model.h"
#include "sim/interference/measured_points.h"

namespace lagoon {

/// How the coefficients of the slowdown are found.
enum class InterferenceKind : std::uint8_t {
  kNone,      // there is no slowdown
  kPaper,     // cache and dram, by least squares (InSS Eq. 1)
  kConstant,  // one factor for any neighbours: the mean of the measured slowdowns
  kRidge,     // all three, by ridge regression towards kConstant
  // cache and dram of a slowdown that saturates (SlowdownTerms::limit), by least squares
  kSaturating,
};
/// "none", "paper", "constant", "ridge", "saturating".
std::string_view Name(InterferenceKind kind);
/// kInvalidArgument: unknown, with the list.
Result<InterferenceKind> ParseInterferenceKind(std::string_view name);
inline constexpr InterferenceKind kInterferenceKinds[] = {
    InterferenceKind::kNone, InterferenceKind::kPaper, InterferenceKind::kConstant,
    InterferenceKind::kRidge, InterferenceKind::kSaturating};

/// How the times alone are found between the measured ones.
enum class AloneKind : std::uint8_t {
  kRegression,  // LocalRegression, and a smooth curve
  kKinked,      // KinkedCurve, which keeps the knee of a model sharp
};

using LatencyModels = std::map<std::string, LatencyModel, std::less<>>;

/// The models of `points`.
/// - The time alone comes from the points without neighbours (FitAlone).
/// - Copies (MeasuredPoint::copies) are lines in the rows, which are fitted apart from the time on
///   the device (Transfers). A model without measured copies has none.
/// - Loads are lines in the throughput. A model without measured loads puts its throughput / its
///   largest measured throughput on both.
/// - The slowdown comes from the points with neighbours, by `kind`. A model without such points
///   has the mean of all models' slowdowns.
/// kInvalidArgument names the model: it has fewer than four points without neighbours, some of
/// these have loads (or copies) and some none, or a neighbour has no points. Of a point that
/// CheckMeasuredPoint() refuses it names the index, the field and the value too.
Result<LatencyModels> FitLatencyModels(std::span<const MeasuredPoint> points, InterferenceKind kind,
                                       AloneKind alone_kind = AloneKind::kRegression);

/// Predicts the time of `point`. kNotFound names the model that `models` does not have.
Result<double> Predict(const LatencyModels& models, const MeasuredPoint& point);

struct PredictionError {
  std::size_t point = 0;  // index
  double predicted_ms = 0;
  double relative = 0;  // (predicted - measured) / measured
};
/// kNotFound: as Predict().
Result<std::vector<PredictionError>> PredictAll(const LatencyModels& models,
                                                std::span<const MeasuredPoint> points);

/// Predictions of the points with neighbours, each by a fit that has seen no point of the same
/// model beside the same set of neighbours. kInvalidArgument: as FitLatencyModels().
Result<std::vector<PredictionError>> PredictHeldOut(std::span<const MeasuredPoint> points,
                                                    InterferenceKind kind);

/// Corrects a model's predictions on one device by what is measured there: the average of measured
/// / predicted, exponentially weighted (0.1 of a new value), from 0.8 to 1.3.
class OnlineCorrection {
 public:
  double factor() const { return factor_; }
  /// `predicted_ms`: without the correction. Values that are not above 0 are ignored.
  void Measured(double measured_ms, double predicted_ms);

 private:
  double factor_ = 1;
};

}  // namespace lagoon
