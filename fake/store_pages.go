package fake

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// page is the requested part of a list.
type page struct {
	limit int         // 0 means no limit
	from  *continuing // nil means from the start
}

// continuing is a continue token: the version of the list's first page and the last returned object. Version -1 means the current version.
type continuing struct {
	Version int64                `json:"rv"`
	After   types.NamespacedName `json:"start"`
}

// newPage reads limit and continue of a list request. A list with resourceVersion 0 is served from the API server's cache and is not paged.
func newPage(query url.Values) (page, error) {
	p := page{}
	version := query.Get("resourceVersion")
	if text := query.Get("limit"); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 0 {
			return p, apierrors.NewBadRequest("limit must be a whole number from 0: " + strconv.Quote(text))
		}
		p.limit = limit
	}
	token := query.Get("continue")
	if token == "" {
		if version == "0" {
			p.limit = 0
		}
		return p, nil
	}
	p.from = &continuing{}
	body, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(body, p.from)
	}
	if err != nil || p.from.Version == 0 {
		return p, apierrors.NewBadRequest("invalid continue token: continue key is not valid")
	}
	if version != "" && version != "0" {
		return p, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	return p, nil
}

func (c *continuing) token() string {
	body, _ := json.Marshal(c) // plain values
	return base64.RawURLEncoding.EncodeToString(body)
}

// expired returns the error when the history does not reach back to the first page; its token continues with the current objects.
func (c *continuing) expired() error {
	err := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. You can start " +
		"a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. " +
		"Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between " +
		"the time the first chunk was returned and now may show up in the list.")
	err.ErrStatus.Continue = c.token()
	return err
}

// cut returns the page of the records, and sets continue and the remaining count in the list's metadata.
func (p page) cut(sel *selection, records []*record, version uint64, meta *metav1.ListMeta) []*record {
	if p.from != nil {
		at, found := slices.BinarySearchFunc(records, p.from.After, func(r *record, after types.NamespacedName) int {
			return compareKeys(r.key, after)
		})
		if found {
			at++
		}
		records = records[at:]
	}
	if p.limit == 0 || len(records) <= p.limit {
		return records
	}
	// The API server counts only lists without selectors.
	if remaining := int64(len(records) - p.limit); sel.labels.Empty() && sel.fields.Empty() {
		meta.RemainingItemCount = &remaining
	}
	records = records[:p.limit]
	meta.Continue = (&continuing{Version: int64(version), After: records[p.limit-1].key}).token()
	return records
}

// past returns the matches of a selection at an earlier version, by undoing later events. It is false if the history does not reach back
// that far. The caller holds the lock.
func (sel *selection) past(now []*record, version uint64) ([]*record, bool) {
	k := sel.view.kind
	if version < k.dropped {
		return nil, false
	}
	before := map[types.NamespacedName]*record{} // nil means that the object did not exist
	for i := len(k.events) - 1; i >= 0 && k.events[i].version > version; i-- {
		before[k.events[i].record().key] = k.events[i].before()
	}
	if len(before) == 0 {
		return now, true
	}
	out := slices.DeleteFunc(now, func(r *record) bool { _, changed := before[r.key]; return changed })
	for _, rec := range before {
		if rec != nil && sel.matches(rec) {
			out = append(out, rec)
		}
	}
	slices.SortFunc(out, compareByKey)
	return out, true
}
