package main

// mutation is a line that keeps an invariant, and the test that fails without it.
type mutation struct {
	// invariant is the number in docs/architecture.md, and keeps what the line is for.
	invariant int
	keeps     string
	file      string
	// old occurs once in the file; fresh takes its place and still compiles.
	old, fresh string
	// test is the test that fails, with its subtest, of the package at dir.
	dir, test string
}

var mutations = []mutation{
	{
		1, "a task is given only when no process owns it",
		"coordinator/streams/reconcile.go",
		"	if _, owned := r.group.ActiveOwner(t); owned && !freed.Active.Contains(t) {\n		return false\n	}\n", "",
		"coordinator/streams", "TestScripts/scale_out.txt",
	},
	{
		1, "a member moves on only when it has reported that it released what it was to revoke",
		"coordinator/streams/reconcile.go",
		"		if !r.released(c.Revoking) {\n			return c, nil\n		}\n", "",
		"coordinator/streams", "TestGroupsSettleAndKeepTasksApart",
	},
	{
		1, "a process holds no two replicas of a task",
		"coordinator/streams/reconcile.go",
		"	return (!r.group.StandbyHeldBy(t, r.process) || freed.Standby.Contains(t)) &&\n		(!r.group.WarmupHeldBy", "	return true &&\n		(!r.group.WarmupHeldBy",
		"coordinator/streams", "TestScripts/role_replica.txt",
	},
	{
		1, "an assignor's result that runs a task twice reaches nobody",
		"coordinator/streams/targetcheck.go",
		"					return fmt.Errorf(\"assignor: task %s_%d is active on %s and %s\", id, partition, c.spec.Members[other-1].ID, m.ID)\n",
		"						_ = other\n",
		"coordinator/streams", "TestBadAssignmentsReachNobody/active_twice",
	},
	{
		1, "a member with an epoch that the group does not expect is fenced",
		"coordinator/streams/member.go",
		"	h.setMember(m)\n	return h.checkEpoch()\n", "	h.setMember(m)\n	return nil\n",
		"coordinator/streams", "TestScripts/fencing.txt",
	},
	{
		1, "a static member whose place another one took is fenced",
		"coordinator/streams/static.go",
		"		if !same {\n			return fencedInstance(h.req.MemberID, instance, holder.ID)\n		}\n", "",
		"coordinator/streams", "TestScripts/static.txt",
	},
	{
		1, "no task moves before the commits of an earlier leader are fenced upstream",
		"coordinator/shard/claim.go",
		"	return e != nil && e.inherited\n", "	return e == nil\n",
		"coordinator/shard", "TestNewLeaderTakesTheMembershipOverBeforeTasksMove",
	},
	{
		1, "no task is taken from a member while its commits are under way",
		"coordinator/shard/heartbeat.go",
		"	g.blocked = append(g.blocked, c)\n	return true\n", "	return false\n",
		"coordinator/shard", "TestTaskIsHandedOnOnlyAfterTheMembersCommits",
	},
	{
		1, "a heartbeat that its member has overtaken releases nothing",
		"coordinator/shard/heartbeat.go",
		"		if m.late(e, c, r) {\n			m.refuse(c, cameLate)\n			return\n		}\n", "",
		"coordinator/shard", "TestALateJoinReleasesNothing",
	},
	{
		1, "a join that was long on its way to the leader is refused",
		"gateway/hopserver.go",
		"	case age > h.g.cfg.freshFor && (r.kind != hopKafka || !leaves(r.payload)):\n		done(nil, tooOld)\n		return nil\n", "",
		"gateway", "TestAJoinThatAHopDeliversLateIsRefused",
	},
	{
		1, "a member that falls silent is removed after its session time-out",
		"coordinator/streams/soft.go",
		"		sm := &SoftMember{SessionDeadline: env.Now + int64(env.Settings.SessionTimeoutMs)}\n", "		sm := &SoftMember{}\n",
		"coordinator/streams", "TestScripts/expire.txt",
	},
	{
		2, "what is taken back once is not taken back twice",
		"coordinator/streams/abort.go",
		"	if l.current.Epoch != epoch {\n", "	if l.current.Epoch < epoch {\n",
		"internal/sim", "TestATopologyIsRolledOutAndTakenBack",
	},
	{
		2, "whoever leaves raises the group epoch",
		"coordinator/streams/leave.go",
		"	meta.Epoch++\n", "",
		"coordinator/streams", "TestGroupsSettleAndKeepTasksApart",
	},
	{
		2, "a member is gone only after its assignment and its target",
		"fsm/evolve.go",
		"	case m.Target != nil:\n		return fmt.Errorf(\"%w: the member has a target assignment\", ErrRejected)\n", "",
		"fsm", "TestReplayRules",
	},
	{
		3, "an answer waits until the log holds what it tells",
		"coordinator/shard/heartbeat.go",
		"			m.open.parked = append(m.open.parked, c)\n", "			c.Done.CallDone(c)\n",
		"coordinator/shard", "TestReplyWaitsForCommit",
	},
	{
		3, "an answer waits for changes of others that it saw",
		"coordinator/shard/machine.go",
		"	return m.inflight.touches(group) || len(m.queue) > 0 && m.queued[group] > 0\n",
		"	return len(m.queue) > 0 && m.queued[group] > 0\n",
		"coordinator/shard", "TestReplyWaitsForCommit",
	},
	{
		3, "a leader answers from memory only with a fresh proof that it still leads",
		"coordinator/shard/machine.go",
		"	if !m.proven() {\n		m.unproven = append(m.unproven, c)\n		m.prove()\n		return\n	}\n", "",
		"coordinator/shard", "TestAnswersFromMemoryNeedAFreshProof",
	},
	{
		3, "a new leader serves only after the barrier of its term",
		"raftnode/lead.go",
		"		if b.err = g.node.barrier(in.raft); b.err != nil {\n			return\n		}\n", "",
		"raftnode", "TestBarrierFailureDoesNotLeaveHalfALeader",
	},
	{
		3, "an unknown outcome ends the leadership",
		"coordinator/shard/batch.go",
		"	if !notStarted || b.partial {\n		m.resign()\n		return\n	}\n", "",
		"coordinator/shard", "TestUnknownOutcomeEndsTheLeadership",
	},
	{
		4, "nobody is removed for the time of a pause of the process",
		"coordinator/shard/timers.go",
		"		m.graceUntil = max(m.graceUntil, now+min(late, maxGraceMs))\n", "",
		"coordinator/shard", "TestNobodyExpiresForAPauseOfTheProcess",
	},
	{
		4, "a member that uses its previous epoch is told again before it is moved on",
		"coordinator/streams/heartbeat.go",
		"	if (reconciledTo(h.current, goalEpoch) || h.behind()) && !misfit {\n", "	if reconciledTo(h.current, goalEpoch) && !misfit {\n",
		"coordinator/streams", "TestScripts/lost_responses.txt",
	},
	{
		4, "after its node's start a shard is led only once the settings of groups are known",
		"server/shard.go",
		"	r.awaitSettings()\n", "",
		"internal/sim", "TestGroupsLookTheSameWhoeverLeads",
	},
	{
		5, "tasks are told again to a member that reports others",
		"coordinator/streams/status.go",
		"	return h.reported() && !acknowledged\n", "	return false\n",
		"coordinator/streams", "TestGroupsSettleAndKeepTasksApart",
	},
	{
		6, "a task named twice in the reported offsets is refused before anything changed",
		"coordinator/streams/reportedoffsets.go",
		"			return nil, r.duplicate(field, in, keys[i])\n", "			continue\n",
		"coordinator/streams", "TestScripts/offsets.txt",
	},
	{
		7, "no target is computed before the topics are known",
		"coordinator/shard/timers.go",
		"			m.timers.arm(key, m.now+m.options.RetryMs)\n			return streams.Decision{}, false\n		}\n		env := m.env(g.ID)\n		d := streams.Tick(",
		"		}\n		env := m.env(g.ID)\n		d := streams.Tick(",
		"coordinator/shard", "TestNoTargetIsComputedBeforeTheTopicsAreKnown",
	},
	{
		7, "no task is taken by a picture of the topics that is older than the leadership",
		"coordinator/shard/heartbeat.go",
		"	if m.doubtful(r.GroupID, &d) {\n", "	if false {\n",
		"coordinator/shard", "TestAnOldPictureOfTheTopicsTakesNoTask",
	},
	{
		7, "no task is taken for topics that do not fit before the grace is over",
		"coordinator/streams/grace.go",
		"		c.Configured, c.Hash, c.Since, c.Until = good, hash, since, until\n", "		_ = until\n",
		"coordinator/streams", "TestScripts/grace.txt",
	},
	{
		7, "a new leader goes on with the numbers that are in the log",
		"coordinator/streams/grace.go",
		"		good = t.Sizes.Configured(c.Topology, hash)\n", "		_ = t\n",
		"coordinator/streams", "TestScripts/grace_failover.txt",
	},
	{
		7, "nobody is told of a problem that ends applications before the topics have been read again",
		"coordinator/streams/grace.go",
		"bool { return env.MetadataAsOf > c.Sighted }", "bool { return true }",
		"coordinator/streams", "TestScripts/confirm.txt",
	},
	{
		8, "a record that is replaced leaves the digest",
		"fsm/evolve.go",
		"	e.digest += hash - *old\n", "	e.digest += hash\n",
		"fsm", "TestFreshReplayedRestored",
	},
	{
		8, "a snapshot whose digest is another one is refused",
		"fsm/snapshot.go",
		"		return fmt.Errorf(\"%w: digest mismatch\", ErrSnapshot)\n", "		return nil\n",
		"fsm", "TestSnapshotDamage",
	},
	{
		8, "an entry that was logged in another term than its proposer led has no effect",
		"raftnode/propose.go",
		"	return len(l.Extensions) == 8 && decodeTerm(l.Extensions) != l.Term\n", "	return false\n",
		"raftnode", "TestStaleTermHasNoEffect",
	},
	{
		9, "a member that joins anew with another topology is not told what it had before",
		"coordinator/streams/update.go",
		"	h.shed(d)\n", "",
		"coordinator/streams", "TestScripts/topology_renumbered.txt",
	},
	{
		9, "a subtopology with the same id and other content is another one",
		"coordinator/streams/stale.go",
		"o != nil && (o == s || s.Equal(o))", "o != nil",
		"coordinator/streams", "TestScripts/topology_epochs.txt",
	},
	{
		9, "a stale member gets nothing that it does not run already",
		"assignor/problem.go",
		"		if all[i].Stale {\n", "		if all[i].Stale && false {\n",
		"assignor", "TestStaleMembersKeepWhatTheyHave",
	},
	{
		9, "a task without an owner goes where its state is, though another has to make room for that",
		"assignor/flow.go",
		"		for f.advance(source) {\n		}\n", "",
		"assignor", "TestSticky",
	},
	{
		9, "an owner with too many tasks gives up first what others have state of",
		"assignor/stickymatch.go",
		"	m.admit(m.offered, byReplica)\n", "",
		"assignor", "TestSticky",
	},
	{
		9, "a full process gives a task on so that one without an owner gets to its standby there",
		"assignor/stickymatch.go",
		"	m.exchange()\n", "",
		"assignor", "TestExchanges",
	},
	{
		9, "no task is handed over to a standby that is known to be behind",
		"assignor/stickyexchange.go",
		" && !x.isBehind(c) {\n", " {\n",
		"assignor", "TestAnExchange",
	},
	{
		9, "tasks do not change places for nothing when others are exchanged",
		"assignor/stickyexchange.go",
		"					g.circular = true\n", "",
		"assignor", "TestCirclesAreLeftOut",
	},
	{
		9, "an assignment that gives a stale member something reaches nobody",
		"coordinator/streams/targetcheck.go",
		"		if m.Stale && !within(goal, m.Current) {\n", "		if m.Stale && false {\n",
		"coordinator/streams", "TestStaleAssignmentsReachNobody",
	},
	{
		9, "the topology epoch of a member whose topology the group does not know stands for no other topology",
		"coordinator/streams/lineage.go",
		"	if sent.Epoch >= l.current.Epoch || l.version(sent.Epoch) != nil {\n", "	if false {\n",
		"coordinator/streams", "TestScripts/topology_unknown.txt",
	},
	{
		5, "a late report of a task of the topology that a stale member runs does not end its application",
		"coordinator/streams/owned.go",
		"		if h.ownTask(", "		if false && h.ownTask(",
		"coordinator/streams", "TestScripts/topology_epochs.txt",
	},
	{
		4, "a member of the earlier topology may commit for its tasks until it has given them up",
		"coordinator/offsets/check.go",
		" && !grantedEarlier(g, m, t.Name, p, req.MemberEpoch)", "",
		"coordinator/offsets", "TestCommitOfTheEarlierTopology",
	},
	{
		4, "members of the topology that is current again are not stale",
		"coordinator/streams/lineage.go",
		"	return v == nil || v.Root != l.root\n", "	return v == nil || v.Root != l.current.Epoch\n",
		"coordinator/streams", "TestScripts/topology_latest.txt",
	},
	{
		7, "unchanged tasks go on while topics of a new topology are missing",
		"coordinator/streams/stale.go",
		"	return l.content(validated), true\n", "	return nil, false\n",
		"coordinator/streams", "TestScripts/topology_standing.txt",
	},
	{
		7, "no task moves to a warm-up of which the end is not known",
		"coordinator/streams/copies.go",
		"	end, ok := c.end(t)\n	if !ok {\n		return 0, false\n	}\n", "	end, _ := c.end(t)\n",
		"coordinator/streams", "TestScripts/warmups_end.txt",
	},
	{
		7, "a warm-up of a member that is away does not count as caught up by its silence",
		"coordinator/streams/warmup.go",
		"	return n.copies.away(m) || soft != nil", "	return soft != nil",
		"coordinator/streams", "TestScripts/warmups_static.txt",
	},
	{
		7, "no task goes to a warm-up whose member is not connected",
		"coordinator/streams/copies.go",
		"	m.NoWarmups, m.Away = c.old, m.Away || c.disconnected\n", "	m.NoWarmups = c.old\n",
		"coordinator/streams", "TestScripts/away_disconnected.txt",
	},
	{
		7, "a member that is back gets what its warm-up was for, without another report",
		"coordinator/streams/warmup.go",
		"		m.warmups[i].raised = 0\n", "		m.warmups[i].raised += 0\n",
		"coordinator/streams", "TestScripts/away_disconnected.txt",
	},
	{
		7, "a static member that has left for a while takes over no task that somebody else can run",
		"coordinator/streams/target.go",
		"			member.Away = t.copies != nil && away(m)\n", "",
		"coordinator/streams", "TestScripts/away_static.txt",
	},
	{
		4, "what is reported while a target is computed is looked at when that is there",
		"coordinator/streams/offload.go",
		"		d.Soft.Warmup = env.Now // for what was reported since the snapshot\n", "",
		"coordinator/shard", "TestAReportWhileATargetIsComputedCounts",
	},
	{
		1, "a commit to the log is fenced by the log's own order",
		"coordinator/shard/logged.go",
		"	kept, refused := offsets.AdmitLogged(m.working.Group(r.GroupID), r,", "	kept, refused := offsets.AdmitLogged(m.committed.Group(r.GroupID), r,",
		"coordinator/shard", "TestACommitIsJudgedByWhatTheLogSaysBeforeIt",
	},
	{
		1, "a commit to the log is fenced by member and epoch",
		"coordinator/offsets/logged.go",
		"	if code := CheckCommit(g, kept); code != coordinator.None {", "	if code := CheckCommit(g, kept); code > coordinator.StaleMemberEpoch {",
		"coordinator/shard", "TestCommitsToTheLogAreFenced",
	},
	{
		3, "a fetch of offsets in the log waits for the commits that it saw",
		"coordinator/shard/logged.go",
		"	if m.open.touches(group) {\n		m.open.park(c, nil, group)\n		return\n	}\n", "",
		"coordinator/shard", "TestACommitIsJudgedByWhatTheLogSaysBeforeIt",
	},
	{
		3, "a group that makes room for another is not deleted before its offsets are upstream",
		"coordinator/shard/vacate.go",
		"	if g.Store() == record.StoreRaft {", "	if g.OffsetsClaimed && g.Store() == record.StoreRaft {",
		"coordinator/shard", "TestAGroupThatMakesRoomBringsItsOffsetsUpstream",
	},
	{
		3, "a new group does not lose offsets that there are upstream",
		"coordinator/shard/logged.go",
		"	if c.found.Offsets {", "	if c.found.InUse {",
		"coordinator/shard", "TestAGroupWithOffsetsUpstreamKeepsThemThere",
	},
	{
		7, "offsets of a running app never expire",
		"coordinator/offsets/expire.go",
		"			read = g.NumMembers() > 0 && g.ReadsTopic(topic)\n", "			read = g.NumMembers() < 0\n",
		"coordinator/offsets", "TestFindDue",
	},
	{
		1, "who is not a member any more commits nothing",
		"coordinator/offsets/check.go",
		"	if m == nil {\n		return coordinator.UnknownMemberID\n	}\n	if !req.Transactional", "	if m == nil {\n		return coordinator.None\n	}\n	if !req.Transactional",
		"internal/sim", "TestHistories/raft",
	},
	{
		1, "a member commits nothing with an epoch from before it was given the task",
		"coordinator/offsets/check.go",
		"req.MemberEpoch < epoch && grantedBy(g, m, req)", "req.MemberEpoch < epoch",
		"internal/sim", "TestHistories/upstream",
	},
	{
		3, "nothing is acknowledged before a quorum has it",
		"coordinator/shard/batch.go",
		"	m.open, m.inflight = nil, b\n",
		"	m.open, m.inflight = nil, b\n	for _, c := range b.parked {\n		c.Done.CallDone(c)\n	}\n	b.parked, b.tasks = nil, nil\n",
		"internal/sim", "TestHistories/raft",
	},
	{
		4, "a full log can be compacted: what frees its segments has a reserve",
		"raftnode/seglog/segment.go",
		"	return s.size / 64\n", "	return 0\n",
		"raftnode/seglog", "TestCompactionFreesAFullLog",
	},
	{
		4, "a node whose log is full starts no elections in vain",
		"raftnode/storage.go",
		"	g.giveUp(in, full.Error())\n", "",
		"raftnode", "TestOneNodeAloneOnAFullDisk",
	},
	{
		4, "a node whose disk has no room for the log lets others lead before the log is full",
		"raftnode/storage.go",
		"	return noRoom != nil || n.evacuated.Load()\n", "	return noRoom != nil && n.evacuated.Load()\n",
		"raftnode", "TestLeadershipIsHandedOverBeforeTheLogIsFull",
	},
}
