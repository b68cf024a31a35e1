grapevine_benchmark(codec SOURCES bench/codec_bench.cpp USES grapevine_messages)
grapevine_test(messages SOURCES messages_codec_test.cpp USES grapevine_messages)
