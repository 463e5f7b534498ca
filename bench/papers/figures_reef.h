#pragma once

// REEF's figures; bench/papers/figures.h.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bench/papers/figure.h"

namespace lagoon::bench {

Result<Figure> ReefFigure1(const FigureOptions& options);
Result<Figure> ReefFigure15(const FigureOptions& options);
Result<Figure> ReefFigure16(const FigureOptions& options);
Result<Figure> ReefFigure17(const FigureOptions& options);
Result<Figure> ReefFigure18(const FigureOptions& options);
Result<Figure> ReefFigure19(const FigureOptions& options);
Result<Figure> ReefFigure20(const FigureOptions& options);
Result<Figure> ReefFigure21(const FigureOptions& options);
Result<Figure> ReefFigure22(const FigureOptions& options);
Result<Figure> ReefFigure23(const FigureOptions& options);
Result<Figure> ReefFigure24(const FigureOptions& options);
Result<Figure> ReefFigure26(const FigureOptions& options);
Result<Figure> ReefFigure27(const FigureOptions& options);
Result<Figure> ReefFigure28(const FigureOptions& options);
Result<Figure> ReefFigure29(const FigureOptions& options);
Result<Figure> ReefFigure30(const FigureOptions& options);

/// The metrics that RunDisbOnSim() reports for a named workload, with the number of requests that
/// a figure needs. The clients take the newest request, as DISB's do; the names do not say so.
/// `prefix`: of the names of kernel lists, "trt-" for TensorRT's.
Result<nlohmann::json> DisbMetrics(const std::string& device, std::string_view workload,
                                   const std::vector<std::string>& schedulers,
                                   const FigureOptions& options, std::string_view prefix = {});

}  // namespace lagoon::bench
