// Grapevine with its actors: messages, handles, your own workers, and a run in your own actor
// system. Needs CAF's headers. Programs that only start runs include <grapevine/grapevine.hpp>.
#pragma once
#include <grapevine/grapevine.hpp>

#include "actors/compute/compute.hpp"
#include "actors/mail/protocol.hpp"
#include "actors/rank/worker.hpp"
#include "actors/run/spawn_run.hpp"
