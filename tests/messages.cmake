grapevine_benchmark(codec SOURCES bench/codec_bench.cpp USES grapevine_messages)
