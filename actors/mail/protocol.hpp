// Protocol: the typed interface of each actor. Sending a message that it does not list does not
// compile.
//
// Messages that only the library's own actors send are declared here and defined in mail_state.hpp
// and mail_node.hpp.
#pragma once
#include <caf/all.hpp>
#include <memory>
#include <string>
#include <vector>

#include "actors/mail/mail.hpp"
#include "actors/settings/samples.hpp"

namespace grapevine {

struct ApplyRequest;
struct Arrived;
struct Attach;
struct Begin;
struct ChangeRank;
struct Collect;
struct Collected;
struct CopyState;
struct Detach;
struct DeviceLost;
struct DeviceTask;
struct EdgeRate;
struct Frame;
struct HandedIn;
struct HandIn;
struct Messages;
struct NodeReport;
struct OwnWork;
struct PartWritten;
struct PeerDown;
struct RankActors;
struct RankLost;
struct RankReady;
struct RankRecord;
struct RankReturns;
struct RankState;
struct ReadRank;
struct RecordRank;
struct Renew;
struct Roster;
struct Sample;
struct SampleReply;
struct SaveNow;
struct SetView;
struct ShareDone;
struct Judged;
struct Solved;
struct StateReport;
struct Suspected;
struct TakeRequest;
struct Taken;
struct TellRoster;
struct View;
struct WorkHeard;
struct WriteRequest;

template <class T>
using Ptr = std::shared_ptr<const T>;

template <class... In>
using Takes = caf::reacts_to<In...>;
template <class In, class Out>
using Answers = typename caf::replies_to<In>::template with<Out>;

using CommunicatorActor = caf::typed_actor<Takes<Frame>, Takes<Tick>, Takes<Taken>, Takes<Judged>,
                                           Takes<Messages>, Takes<Ptr<View>>, Takes<PeerDown>,
                                           Takes<Order>, Answers<Report, CommunicatorReport>>;

using WorkerActor = caf::typed_actor<Takes<Parameters>, Takes<Computed>, Takes<Start>, Takes<Tick>,
                                     Takes<Order>, Answers<Report, WorkerReport>>;

using StateActor = caf::typed_actor<
    Takes<TakeRequest>, Takes<WriteRequest>, Takes<ApplyRequest>, Takes<Gradient>, Takes<TakeStep>,
    Takes<Fetch>, Takes<SetView>, Takes<Attach>, Takes<Detach>, Takes<Arrived>, Takes<DeviceLost>,
    Takes<DeviceTask>, Takes<Tick>, Answers<HandIn, HandedIn>, Answers<CopyState, Ptr<RankState>>,
    Answers<RecordRank, Ptr<RankRecord>>, Answers<Sample, SampleReply>,
    Answers<ReadRank, RankParameters>, Answers<Collect, Collected>, Answers<Report, StateReport>>;

using TopologyManagerActor = caf::typed_actor<Takes<Ptr<std::vector<RankActors>>>,
                                              Takes<Ptr<Roster>>, Takes<Ptr<std::vector<EdgeRate>>>,
                                              Takes<Renew>, Takes<Ptr<Solved>>, Takes<TellRoster>>;

/// The actor that owns membership: it makes the rosters that begin epochs. A run of one process has
/// one too (local_membership.hpp).
using MembershipActor =
    caf::typed_actor<Answers<Reconfigure, std::string>, Takes<Ptr<std::vector<EdgeRate>>>,
                     Takes<EpochInfo>, Takes<ShareDone>, Takes<OwnWork>, Takes<Suspected>,
                     Takes<RankLost>, Answers<RankReturns, int>, Takes<RankReady>>;

using ObserverActor = caf::typed_actor<Takes<Tick>, Takes<EpochInfo>>;

using NodeActor =
    caf::typed_actor<Takes<Begin>, Takes<Finished>, Takes<WorkHeard>, Takes<Diverged>,
                     Takes<KillRank>, Takes<RestartRank>, Takes<Order, int>, Takes<Tick>,
                     Takes<Finish>, Answers<ChangeRank, std::string>, Answers<Report, NodeReport>>;

using FaultsActor = caf::typed_actor<Takes<Start>, Takes<Tick>>;

using CheckpointerActor =
    caf::typed_actor<Takes<Tick>, Takes<PartWritten>, Answers<SaveNow, std::string>>;

}  // namespace grapevine

#define GV_LOCAL_MESSAGE(type) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(grapevine::type)
GV_LOCAL_MESSAGE(Tick)
GV_LOCAL_MESSAGE(Order)
GV_LOCAL_MESSAGE(Report)
GV_LOCAL_MESSAGE(Frame)
GV_LOCAL_MESSAGE(Lease)
GV_LOCAL_MESSAGE(Ptr<grapevine::View>)
GV_LOCAL_MESSAGE(Taken)
GV_LOCAL_MESSAGE(Judged)
GV_LOCAL_MESSAGE(Messages)
GV_LOCAL_MESSAGE(PeerDown)
GV_LOCAL_MESSAGE(CommunicatorReport)
GV_LOCAL_MESSAGE(Parameters)
GV_LOCAL_MESSAGE(Computed)
GV_LOCAL_MESSAGE(WorkerReport)
GV_LOCAL_MESSAGE(NodeReport)
GV_LOCAL_MESSAGE(TakeRequest)
GV_LOCAL_MESSAGE(WriteRequest)
GV_LOCAL_MESSAGE(ApplyRequest)
GV_LOCAL_MESSAGE(Gradient)
GV_LOCAL_MESSAGE(TakeStep)
GV_LOCAL_MESSAGE(Fetch)
GV_LOCAL_MESSAGE(SetView)
GV_LOCAL_MESSAGE(Attach)
GV_LOCAL_MESSAGE(Detach)
GV_LOCAL_MESSAGE(Arrived)
GV_LOCAL_MESSAGE(DeviceLost)
GV_LOCAL_MESSAGE(DeviceTask)
GV_LOCAL_MESSAGE(HandIn)
GV_LOCAL_MESSAGE(HandedIn)
GV_LOCAL_MESSAGE(StateReport)
GV_LOCAL_MESSAGE(CopyState)
GV_LOCAL_MESSAGE(Ptr<grapevine::RankState>)
GV_LOCAL_MESSAGE(RecordRank)
GV_LOCAL_MESSAGE(Ptr<grapevine::RankRecord>)
GV_LOCAL_MESSAGE(Sample)
GV_LOCAL_MESSAGE(SampleReply)
GV_LOCAL_MESSAGE(ReadRank)
GV_LOCAL_MESSAGE(RankParameters)
GV_LOCAL_MESSAGE(Collect)
GV_LOCAL_MESSAGE(Collected)
GV_LOCAL_MESSAGE(Reconfigure)
GV_LOCAL_MESSAGE(ShareDone)
GV_LOCAL_MESSAGE(OwnWork)
GV_LOCAL_MESSAGE(WorkHeard)
GV_LOCAL_MESSAGE(Suspected)
GV_LOCAL_MESSAGE(RankLost)
GV_LOCAL_MESSAGE(RankReturns)
GV_LOCAL_MESSAGE(RankReady)
GV_LOCAL_MESSAGE(Ptr<std::vector<grapevine::RankActors>>)
GV_LOCAL_MESSAGE(Ptr<grapevine::Roster>)
GV_LOCAL_MESSAGE(Ptr<std::vector<grapevine::EdgeRate>>)
GV_LOCAL_MESSAGE(Ptr<grapevine::Solved>)
GV_LOCAL_MESSAGE(Renew)
GV_LOCAL_MESSAGE(TellRoster)
GV_LOCAL_MESSAGE(RunSample)
GV_LOCAL_MESSAGE(Alarm)
GV_LOCAL_MESSAGE(Outcome)
GV_LOCAL_MESSAGE(EpochInfo)
GV_LOCAL_MESSAGE(Finished)
GV_LOCAL_MESSAGE(Diverged)
GV_LOCAL_MESSAGE(ChangeRank)
GV_LOCAL_MESSAGE(KillRank)
GV_LOCAL_MESSAGE(RestartRank)
GV_LOCAL_MESSAGE(Start)
GV_LOCAL_MESSAGE(Finish)
GV_LOCAL_MESSAGE(Begin)
GV_LOCAL_MESSAGE(SaveNow)
GV_LOCAL_MESSAGE(PartWritten)
#undef GV_LOCAL_MESSAGE
