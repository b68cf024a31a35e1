# What a frame's header looks like on a wire: one struct without pointers, in one segment.
#
# Fields are only ever appended, and each change of meaning raises `version`. The layout has no padding, so
# each value has exactly one encoding. README.md says what each field means.
@0xe5c1b0b7a51d7f3e;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("grapevine::wire");

enum Kind {
  offer @0;
  accept @1;
  decline @2;
  data @3;
  ack @4;
  ask @5;
  chunk @6;
  message @7;
  piece @8;
}

enum Reason {
  none @0;
  busy @1;
  notYet @2;
  repeat @3;
  olderCaller @4;
  epoch @5;
  noBuffer @6;
  gone @7;
}

enum ElementType {
  f32 @0;
  f64 @1;
  bytes @2;
}

struct Header {
  version @0 :UInt16;          # 1
  kind @1 :Kind;
  reason @2 :Reason;           # of a decline
  dtype @3 :ElementType;       # of the payload
  from @4 :UInt32;             # ranks
  to @5 :UInt32;
  fromIncarnation @6 :UInt32;
  toIncarnation @7 :UInt32;
  part @8 :UInt32;             # attempt of an offer, or part of a round
  payloadVersion @9 :UInt32;   # of what the payload was encoded with (low-rank factors), or 0
  epoch @10 :UInt64;
  number @11 :UInt64;          # of the exchange on this edge, or of the round
  count @12 :UInt64;           # elements of the payload, which follows the message
  alphaTilde @13 :Float64;     # the sender's, for this exchange
  bound @14 :Float64;          # data: how far apart the sender expects the two snapshots at most
}
