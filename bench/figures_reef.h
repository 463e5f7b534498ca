#pragma once

// REEF's figures; bench/figures.h.

#include "bench/figure.h"

namespace lagoon::bench {

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

}  // namespace lagoon::bench
