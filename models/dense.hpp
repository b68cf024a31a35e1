// Small dense algebra for randomly drawn problems: rotations and a solver.
//
// Matrices are row-major. Rotations are uniform (Haar): the product of d - 1 Householder
// reflections by Gaussian vectors of length d, d-1, ... 2 is what the QR decomposition of a
// Gaussian matrix gives, up to signs that cancel here (Stewart, SIAM J. Numer. Anal. 17, 1980).
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "kernels/base/random.hpp"

namespace grapevine {

/// Q diag(values) Q' for a random rotation Q; d = values.size(), 4/3 d^3 operations.
std::vector<double> rotated_diagonal(std::span<const double> values, Random&);

/// U diag(values) V' for random rotations U and V; REQUIRES: values.size() = min(rows, columns).
std::vector<double> matrix_with_spectrum(size_t rows, size_t columns,
                                         std::span<const double> values, Random&);

/// out = a x for a symmetric a. REQUIRES: out and x do not overlap.
void multiply(std::span<const double> a, const double* x, double* out, size_t dim);

/// The x with a x = b, by Cholesky. REQUIRES: a is symmetric and positive definite.
std::vector<double> solve_positive(std::vector<double> a, std::vector<double> b);

}  // namespace grapevine
