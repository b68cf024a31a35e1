# What a guest (a script that computes a rank's steps) and its node say to each other on the node's socket: one
# struct without pointers, in one segment of nine words, 80 bytes. `count` bytes of text follow a join, a report, a
# refusal or what is said of a checkpoint.
#
# Fields are only ever appended, and each change of meaning raises `version`. FORMAT.md says what each field means
# in which record.
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
  flags @2 :UInt16;       # 1 resumed, 2 end, 4 not finite, 8 not saved, 16 aside, 32 over, 64 moved, 128 empty, 256 seat
  dtype @3 :UInt16;       # of the front: 0, f32
  rank @4 :UInt32;        # 2^32 - 1: any; of a wait: the first that is waited for
  ranks @5 :UInt32;       # of the run; of a mean: in it; of a wait: waited for; step, share: the share's key
  number @6 :UInt64;      # steps of the rank; join, share: the gradients of the run's work
  runSteps @7 :UInt64;    # gradients of all ranks together, as the node estimates them; step, share: passes of the share
  exchanges @8 :UInt64;   # that have moved the rank; step: gradients that it holds, 0 is 1
  count @9 :UInt64;       # bytes of the text, or of what a descriptor holds; step, share: samples of the pass;
                          # welcome, front: gradients of the run's work
  value @10 :Float64;     # step: the loss; front: seconds in the node; wait: seconds so far; share: gradients told
  epoch @11 :UInt64;      # of the graph
}
