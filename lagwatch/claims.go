package lagwatch

import (
	"encoding/hex"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/consumer/offset"
)

// claim is what the metadata of one commit of a TenantLane group says.
type claim struct {
	partition int32
	point     offset.Checkpoint
}

// claim reads a commit's metadata, if it is in TenantLane's format.
func (c *CommitsSnapshot) claim(p *kmsg.OffsetFetchResponseGroupTopicPartition) {
	if p.Metadata == nil || *p.Metadata == "" {
		return
	}
	if point, why := offset.Decode(*p.Metadata); why == offset.Valid && point.Watermark == p.Offset {
		c.claims = append(c.claims, claim{p.Partition, point})
	}
}

// useClaims turns claims into runnable offsets, once cluster and topic are
// known to be theirs: tools that copy or set commits keep the metadata. How
// lane keys are formed does not matter here, nor does an old leader epoch.
func (c *CommitsSnapshot) useClaims(clusterID string, t *TopicSnapshot) {
	if t == nil || !t.Known {
		return
	}
	for _, claim := range c.claims {
		point := &claim.point
		if point.Cluster != clusterID || hex.EncodeToString(point.Topic[:]) != t.ID {
			continue
		}
		end := offsetOf(t.End, int(claim.partition))
		if end >= 0 && point.Frontier > end { // the log was cut below it
			continue
		}
		c.park(claim.partition, point.Lanes)
		r := point.Runnable()
		c.Runnable = put(c.Runnable, claim.partition, r)
		if r < point.Frontier {
			c.Lanes = put(c.Lanes, claim.partition, r)
		}
	}
}

// park counts the lanes that are parked in a partition.
func (c *CommitsSnapshot) park(partition int32, lanes []offset.Lane) {
	n := int32(0)
	for _, l := range lanes {
		if l.Parked {
			n++
		}
	}
	if n == 0 {
		return
	}
	for int(partition) >= len(c.Parked) {
		c.Parked = append(c.Parked, 0)
	}
	c.Parked[partition] = n
}
