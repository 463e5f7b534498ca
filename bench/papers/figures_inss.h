#pragma once

// InSS's figures that the batch-level simulator reproduces; bench/papers/figures.h. The cluster is
// that of cluster/sim/inss_cluster.h, which says what the paper leaves open.

#include "bench/papers/figure.h"

namespace lagoon::bench {

Result<Figure> InssFigure1(const FigureOptions& options);
Result<Figure> InssFigure2(const FigureOptions& options);
/// Fig. 2 with the shares that the paper prints, under TruthSpec::Published(), and what inss-ni
/// loses under it.
Result<Figure> InssFigure2Printed(const FigureOptions& options);
/// Tables 3 and 4: errors of the kinds of latency models on random co-runs.
Result<Figure> InssTable3(const FigureOptions& options);
/// Tables 3 and 4: errors on their 28 rows, of the time alone and of the slowdown apart, for some
/// ways to measure and to fit, under TruthSpec{} and TruthSpec::Published(). Errors are fractions.
Result<Figure> InssTable4(const FigureOptions& options);
/// Eq. 3, and the forecast by which Lagoon's placers decide, beside the simulator: one replica of
/// AlexNet at its knee. "full": batches wait until they are full; "waiting": they take what waits.
Result<Figure> InssEquation3(const FigureOptions& options);
Result<Figure> InssFigure10(const FigureOptions& options);  // with Figure 12
Result<Figure> InssFigure11(const FigureOptions& options);  // with Figure 15
Result<Figure> InssFigure13(const FigureOptions& options);  // with Figure 14
Result<Figure> InssFigure16(const FigureOptions& options);  // with Figures 17 and 18
Result<Figure> InssFigure19(const FigureOptions& options);  // with Figure 3

}  // namespace lagoon::bench
