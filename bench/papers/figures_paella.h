#pragma once

// Paella's figures; bench/papers/figures.h.

#include "bench/papers/figure.h"

namespace lagoon::bench {

Result<Figure> PaellaFigure1(const FigureOptions& options);
Result<Figure> PaellaFigure2(const FigureOptions& options);
Result<Figure> PaellaFigure9(const FigureOptions& options);
Result<Figure> PaellaFigure11(const FigureOptions& options);
Result<Figure> PaellaFigure12(const FigureOptions& options);
Result<Figure> PaellaFigure13(const FigureOptions& options);

}  // namespace lagoon::bench
