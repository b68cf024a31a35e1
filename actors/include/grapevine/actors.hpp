// Grapevine with its actors: messages, a run in your own actor system, your own workers. Needs
// CAF's headers. Programs that only start runs include <grapevine/grapevine.hpp>.
#pragma once
#include <caf/config.hpp>
#if CAF_VERSION < 1700 || CAF_VERSION >= 1800
#error "<grapevine/actors.hpp> needs CAF 0.17 (Debian: libcaf-dev); <caf/config.hpp> is of another"
#endif

#include <grapevine/grapevine.hpp>

#include "actors/compute/compute.hpp"
#include "actors/mail/protocol.hpp"
#include "actors/rank/worker.hpp"
#include "actors/run/spawn_run.hpp"
