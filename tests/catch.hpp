// The one place that names Catch2's header: the packaged version is 2.13.
#pragma once
#include <catch2/catch.hpp>
