#include "topologies/topology.hpp"
namespace grapevine {
std::string draw_svg(const Topology&) { return {}; }
}
