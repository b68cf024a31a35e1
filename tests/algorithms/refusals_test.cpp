// The requirements of a method on settings, weights and graph are checked before a run begins: one
// line names the key, the value and the accepted values.
#include "actors/algorithms/method_registry.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

struct Asked {
  std::string method;
  std::string topology = "ring";
  int ranks = 8;
  RuleSettings rule = {};
  std::string weights = "metropolis";
};

/// The one line, or "" where it is accepted.
std::string refusal(const Asked& asked) {
  const Topology graph = *make_topology(asked.topology, asked.ranks, 1);
  const Status status = check_method(asked.method, asked.rule, asked.weights, graph);
  if (status) return "";
  CHECK((status.error().kind == Error::Kind::user));
  CHECK(status.error().message.find('\n') == std::string::npos);
  return status.error().message;
}

RuleSettings gamma_of(double gamma) {
  RuleSettings rule;
  rule.gamma = gamma;
  return rule;
}

RuleSettings compress_of(const std::string& spec) {
  RuleSettings rule;
  rule.compress = spec;
  return rule;
}

RuleSettings missing_of(Missing missing) {
  RuleSettings rule;
  rule.missing = missing;
  return rule;
}

}  // namespace

TEST_CASE("every method is accepted as it comes, on a graph that it likes") {
  for (const char* method : {"a2cid2", "ad_psgd", "all_reduce", "choco", "d_psgd", "deepsqueeze",
                             "gradient_tracking", "moniqua", "powergossip", "qgm", "sgp"})
    CHECK(refusal({.method = method}) == "");
  CHECK(refusal({.method = "d2", .weights = "lazy"}) == "");
  for (const char* method : {"relaysgd", "relaysgd_async", "relaysum_grad"})
    CHECK(refusal({.method = method, .topology = "chain"}) == "");
}

TEST_CASE("bf16 goes with pairs, compressed or not, and with nothing else") {
  RuleSettings bf16;
  bf16.wire = Wire::bf16;
  for (const char* method : {"d_psgd", "all_reduce", "sgp"})
    CHECK(refusal({.method = method, .rule = bf16}) ==
          "wire is bf16, method " + std::string(method) +
              " accepts: full; bf16 goes with methods of pairs (a2cid2, ad_psgd)");
  for (const char* compress : {"", "powergossip:rank=1", "random:0.1"}) {
    bf16.compress = compress;
    CHECK(refusal({.method = "a2cid2", .rule = bf16}) == "");
    CHECK(refusal({.method = "ad_psgd", .rule = bf16}) == "");
  }
}

TEST_CASE("D2 refuses a gossip matrix with an eigenvalue of -1/3 or less, and says the number") {
  CHECK(refusal({.method = "d2"}) ==
        "method d2 needs eigenvalues above -0.333333, those of weights metropolis on ring begin at "
        "-0.333333, accepted: weights lazy, uniform:W with a smaller W, or gamma below 1");
  CHECK(refusal({.method = "d2", .topology = "social", .ranks = 32})
            .find("on social begin at -0.434279, accepted: weights lazy") != std::string::npos);
  CHECK(refusal({.method = "d2", .weights = "uniform:0.3233"}) == "");
  CHECK(refusal({.method = "d2", .rule = gamma_of(0.99)}) == "");
  CHECK(refusal({.method = "d2", .topology = "chain", .ranks = 16}) == "");  // -.32052
  CHECK(refusal({.method = "d2", .topology = "ring", .ranks = 1}) == "");
  CHECK(refusal({.method = "d_psgd", .topology = "social", .ranks = 32}) == "");
}

TEST_CASE("a gamma with which gossip diverges is refused") {
  const std::string limit = " accepts: below 1.5";
  for (const char* method : {"d_psgd", "choco", "powergossip"}) {
    const std::string line = refusal({.method = method, .rule = gamma_of(1.5)});
    CHECK(line == "gamma is 1.5, method " + std::string(method) +
                      " with weights metropolis on ring" + limit);
    CHECK(refusal({.method = method, .rule = gamma_of(1.499)}) == "");
  }
  CHECK(refusal({.method = "d2", .rule = gamma_of(1.1), .weights = "lazy"}) == "");
  CHECK(refusal({.method = "d2", .rule = gamma_of(2.01), .weights = "lazy"}) ==
        "gamma is 2.01, method d2 with weights lazy on ring accepts: below 2");
  CHECK(refusal({.method = "qgm", .rule = gamma_of(0)}) == "gamma is 0, accepted: above 0");
  CHECK(refusal({.method = "qgm", .rule = gamma_of(-1)}) == "gamma is -1, accepted: above 0");
}

TEST_CASE("weights that no gossip matrix has are refused, and any by methods without one") {
  CHECK(refusal({.method = "d_psgd", .weights = "uniform:0.6"}).find("0.6") != std::string::npos);
  CHECK(refusal({.method = "d_psgd", .weights = "metropole"}).find("metropole") !=
        std::string::npos);
  CHECK(refusal({.method = "a2cid2", .weights = "lazy"}) ==
        "weights is \"lazy\" with method a2cid2, which has no gossip matrix, accepted: no weights");
  CHECK(refusal({.method = "sgp", .rule = gamma_of(0.5)}) ==
        "gamma is 0.5 with method sgp, which has no gossip matrix, accepted: no gamma");
}

TEST_CASE("methods that relay refuse a graph that is no tree") {
  for (const char* method : {"relaysgd", "relaysgd_async", "relaysum_grad"}) {
    CHECK(refusal({.method = method}).find("spanning:ring") != std::string::npos);
    CHECK(refusal({.method = method, .topology = "spanning:ring"}) == "");
    CHECK(refusal({.method = method, .topology = "double-binary-trees"}) == "");
  }
}

TEST_CASE("the published schedule of SGP asks for a power of two, and for SGP") {
  RuleSettings rule;
  rule.reference_schedule = true;
  CHECK(refusal({.method = "sgp", .ranks = 12, .rule = rule}) ==
        "ranks is 12, the reference schedule of method sgp accepts: a power of two");
  CHECK(refusal({.method = "sgp", .ranks = 16, .rule = rule}) == "");
  CHECK(refusal({.method = "sgp", .ranks = 12}) == "");
  CHECK(refusal({.method = "d_psgd", .ranks = 16, .rule = rule}) ==
        "reference-schedule with method d_psgd, which has no schedule of peers, accepted: method "
        "sgp");
}

TEST_CASE("a policy for lost messages is refused where the method has none") {
  CHECK(refusal({.method = "choco", .rule = missing_of(Missing::own)}) ==
        "missing is own, method choco accepts: resend");
  CHECK(refusal({.method = "sgp", .rule = missing_of(Missing::reuse)}) ==
        "missing is reuse, method sgp accepts: resend, own");
  CHECK(refusal({.method = "moniqua", .rule = missing_of(Missing::own)}) == "");
  CHECK(refusal({.method = "a2cid2", .rule = missing_of(Missing::shrink)}) ==
        "missing is shrink, method a2cid2 accepts: resend");
  for (const Missing missing :
       {Missing::renormalise, Missing::own, Missing::reuse, Missing::shrink})
    for (const char* method : {"d_psgd", "gradient_tracking", "qgm"})
      CHECK(refusal({.method = method, .rule = missing_of(missing)}) == "");
}

TEST_CASE("a normalisation is for relays, Adam for methods without a momentum of their own") {
  RuleSettings rule;
  rule.normalisation = Normalisation::own;
  CHECK(refusal({.method = "d_psgd", .rule = rule}) ==
        "normalisation with method d_psgd, which relays nothing, accepted: no normalisation");
  CHECK(refusal({.method = "relaysgd", .topology = "star", .rule = rule}) == "");
  rule = {};
  rule.optimizer.kind = OptimizerKind::adam;
  CHECK(refusal({.method = "qgm", .rule = rule}) ==
        "optimizer is adam with method qgm, accepted: sgd");
  CHECK(refusal({.method = "d_psgd", .rule = rule}) == "");
}

TEST_CASE("a compress that the method does not know is refused") {
  CHECK(
      refusal({.method = "qgm", .rule = compress_of("sign")})
          .starts_with("compress is \"sign\" with method qgm, accepted: no compress, or one of the "
                       "methods a2cid2, "));
  for (const char* method : {"choco", "deepsqueeze"}) {
    for (const char* spec :
         {"sign", "identity", "top-k:0.01", "random-k:1", "low-rank:2", "quantise:16"})
      CHECK(refusal({.method = method, .rule = compress_of(spec)}) == "");
    CHECK(refusal({.method = method, .rule = compress_of("top-k:0")}) ==
          "compress is \"top-k:0\", accepted: a ratio above 0 and up to 1, e.g. top-k:0.01");
    CHECK(refusal({.method = method, .rule = compress_of("gzip")})
              .starts_with("compress is \"gzip\", accepted: identity, "));
    CHECK(refusal({.method = method, .rule = compress_of("modulo:1")}) != "");
  }
  CHECK(refusal({.method = "moniqua", .rule = compress_of("modulo:0.25")}) == "");
  for (const char* spec : {"modulo", "modulo:", "modulo:0", "modulo:-1", "modulo:1x", "modulo:inf",
                           "modulo:nan", "sign"})
    CHECK(refusal({.method = "moniqua", .rule = compress_of(spec)}) ==
          "compress is \"" + std::string(spec) +
              "\", moniqua accepts: modulo:THETA with THETA above 0, e.g. modulo:0.25");
}
