// Grapevine with its actors in sight: messages, handles, workers of your own, and a run in an actor
// system of your own. Needs CAF's headers; those who only run want <grapevine/grapevine.hpp>.
#pragma once
#include <grapevine/grapevine.hpp>

#include "actors/compute/compute.hpp"
#include "actors/mail/protocol.hpp"
#include "actors/rank/worker.hpp"
#include "actors/run/spawn_run.hpp"
