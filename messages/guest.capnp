# The messages of a guest (a script that computes a rank's steps) and its node, on the node's unix socket. A record is
# one struct without pointers, in one segment of nine words: 80 bytes. After a join, a report, a refusal or a saved,
# `count` bytes of text follow.
#
# Fields are only appended. A change of a field's meaning raises `version`. guest_codec.cpp checks version, kind,
# flags, dtype and the length of a text; the node checks the rest when it handles the record. FORMAT.md has the meaning
# of each field in each kind of record.
@0xc3d6f0a91e5b7a42;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("grapevine::wire");

enum GuestKind {
  join @0;
  welcome @1;
  refused @2;
  step @3;
  front @4;
  mean @5;
  keep @6;
  kept @7;
  finish @8;
  leave @9;
  bye @10;
  wait @11;
  checkpoint @12;
  saved @13;
  share @14;
  report @15;
}

struct GuestRecord {
  version @0 :UInt16;     # 2
  kind @1 :UInt16;        # a GuestKind
  flags @2 :UInt16;       # sum of: 1 resumed, 2 end, 4 not finite, 8 not saved, 16 aside, 32 over, 64 moved,
                          # 128 empty, 256 seat
  dtype @3 :UInt16;       # of the front: 0, fp32
  rank @4 :UInt32;        # 2^32 - 1: any; wait: the first rank that the script waits for
  ranks @5 :UInt32;       # number of ranks of the run; mean: of ranks in the mean; wait: of ranks that the script
                          # waits for; step, share: the key of the data
  number @6 :UInt64;      # steps of the rank; join, share: the number of gradients of the run
  runSteps @7 :UInt64;    # gradients of all ranks together, estimated by the node; step, share: passes over the data
  exchanges @8 :UInt64;   # exchanges that have changed the rank; step: number of gradients in the step (0 means 1);
                          # share: number of gradients since the last step
  count @9 :UInt64;       # bytes of the text, or of the memory of the descriptor; step, share: samples of the pass;
                          # welcome, front: the number of gradients of the run
  value @10 :Float64;     # step: the loss; front: seconds in the node; wait: seconds so far; share: gradients that
                          # all ranks have reported
  epoch @11 :UInt64;      # of the graph
}
