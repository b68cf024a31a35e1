#include "models/dense.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/base/check.hpp"

namespace grapevine {
namespace {

/// A Gaussian direction of `size` coordinates: I - 2 v v' reflects along it.
std::vector<double> reflector(size_t size, Random& random) {
  std::vector<double> v(size);
  double squares = 0;
  for (double& c : v)
    c = random.normal();
  for (const double c : v)
    squares += c * c;
  // The reflection sends a Gaussian column to the first axis. This sign avoids cancellation.
  const double pivot = v[0] < 0 ? -std::sqrt(squares) : std::sqrt(squares);
  const double scale = 1 / std::sqrt(2 * (squares + std::abs(v[0]) * std::sqrt(squares)));
  v[0] += pivot;
  for (double& c : v)
    c *= scale;
  return v;
}

/// Reflects the last v.size() rows of a matrix.
void reflect_rows(std::vector<double>& a, size_t rows, size_t columns,
                  const std::vector<double>& v) {
  const size_t first = rows - v.size();
  std::vector<double> along(columns, 0.0);
  for (size_t r = 0; r < v.size(); ++r) {
    const double* row = a.data() + (first + r) * columns;
    for (size_t c = 0; c < columns; ++c)
      along[c] += v[r] * row[c];
  }
  for (size_t r = 0; r < v.size(); ++r) {
    double* row = a.data() + (first + r) * columns;
    for (size_t c = 0; c < columns; ++c)
      row[c] -= 2 * v[r] * along[c];
  }
}

/// Reflects the last v.size() columns.
void reflect_columns(std::vector<double>& a, size_t rows, size_t columns,
                     const std::vector<double>& v) {
  const size_t first = columns - v.size();
  for (size_t r = 0; r < rows; ++r) {
    double* row = a.data() + r * columns + first;
    double along = 0;
    for (size_t c = 0; c < v.size(); ++c)
      along += v[c] * row[c];
    for (size_t c = 0; c < v.size(); ++c)
      row[c] -= 2 * v[c] * along;
  }
}

}  // namespace

std::vector<double> rotated_diagonal(std::span<const double> values, Random& random) {
  const size_t dim = values.size();
  std::vector<double> a(dim * dim, 0.0), along(dim);
  for (size_t k = 0; k < dim; ++k)
    a[k * dim + k] = values[k];
  for (size_t size = 2; size <= dim; ++size) {  // only the last `size` rows and columns are full
    const std::vector<double> v = reflector(size, random);
    const size_t first = dim - size;
    double* block = a.data() + first * dim + first;
    double curvature = 0;
    for (size_t r = 0; r < size; ++r) {
      along[r] = 0;
      for (size_t c = 0; c < size; ++c)
        along[r] += block[r * dim + c] * v[c];
      curvature += along[r] * v[r];
    }
    for (size_t r = 0; r < size; ++r)
      along[r] = 2 * (along[r] - curvature * v[r]);
    for (size_t r = 0; r < size; ++r) {
      for (size_t c = 0; c < size; ++c)
        block[r * dim + c] -= along[r] * v[c] + v[r] * along[c];
    }
  }
  return a;
}

std::vector<double> matrix_with_spectrum(size_t rows, size_t columns,
                                         std::span<const double> values, Random& random) {
  GV_CHECK(values.size() == std::min(rows, columns));
  std::vector<double> a(rows * columns, 0.0);
  for (size_t k = 0; k < values.size(); ++k)
    a[k * columns + k] = values[k];
  for (size_t size = 2; size <= rows; ++size) {
    reflect_rows(a, rows, columns, reflector(size, random));
  }
  for (size_t size = 2; size <= columns; ++size) {
    reflect_columns(a, rows, columns, reflector(size, random));
  }
  return a;
}

void multiply(std::span<const double> a, const double* x, double* out, size_t dim) {
  GV_CHECK(a.size() == dim * dim);
  std::fill_n(out, dim, 0.0);
  for (size_t r = 0; r < dim; ++r) {  // by columns: these sums do not wait for each other
    const double* row = a.data() + r * dim;
    for (size_t c = 0; c < dim; ++c) out[c] += row[c] * x[r];
  }
}

std::vector<double> solve_positive(std::vector<double> a, std::vector<double> b) {
  const size_t dim = b.size();
  GV_CHECK(a.size() == dim * dim);
  for (size_t r = 0; r < dim; ++r) {  // a becomes L with L L' = a, row by row; b becomes L^-1 b
    for (size_t c = 0; c <= r; ++c) {
      double sum = a[r * dim + c];
      for (size_t k = 0; k < c; ++k)
        sum -= a[r * dim + k] * a[c * dim + k];
      if (c < r) {
        a[r * dim + c] = sum / a[c * dim + c];
      } else {
        GV_CHECK(sum > 0);
        a[r * dim + r] = std::sqrt(sum);
      }
    }
    for (size_t k = 0; k < r; ++k)
      b[r] -= a[r * dim + k] * b[k];
    b[r] /= a[r * dim + r];
  }
  for (size_t r = dim; r-- > 0;) {
    for (size_t k = r + 1; k < dim; ++k)
      b[r] -= a[k * dim + r] * b[k];
    b[r] /= a[r * dim + r];
  }
  return b;
}

}  // namespace grapevine
