package patch

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// content is what a patch changes, without what differs each time that the same is written: its preconditions, and times.
type content struct {
	object types.UID
	paths  [][]string
	hash   uint64
}

// timeForm are the times in a patch as JSON: in RFC 3339, and in seconds since 1970 as a member of an annotation that holds JSON.
var timeForm = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z|:1[0-9]{9}\b`)

// operation is one of a JSON patch.
type operation struct {
	Op, Path string
	Value    any
}

// contentOfPatch reads a merge patch, or a JSON patch that tests the UID.
func contentOfPatch(p client.Patch) (content, error) {
	raw, err := p.Data(nil)
	if err != nil {
		return content{}, err
	}
	var c content
	var changes any
	if p.Type() == types.JSONPatchType {
		changes, err = c.readOperations(raw)
	} else {
		changes, err = c.readMerge(raw)
	}
	if err != nil {
		return content{}, fmt.Errorf("read a patch: %w", err)
	}
	if raw, err = json.Marshal(changes); err != nil {
		return content{}, err
	}
	hash := fnv.New64a()
	_, _ = hash.Write(timeForm.ReplaceAllLiteral(raw, nil))
	c.hash = hash.Sum64()
	return c, nil
}

func (c *content) readOperations(raw []byte) (any, error) {
	var all []operation
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	for _, o := range all {
		if uid, ok := o.Value.(string); ok && o.Op == "test" && o.Path == "/metadata/uid" {
			c.object = types.UID(uid)
		}
	}
	all = slices.DeleteFunc(all, func(o operation) bool { return o.Op == "test" })
	names := strings.NewReplacer("~1", "/", "~0", "~")
	for _, o := range all {
		path := strings.Split(strings.TrimPrefix(o.Path, "/"), "/")
		for i, name := range path {
			path[i] = names.Replace(name)
		}
		c.paths = append(c.paths, path)
	}
	return all, nil
}

func (c *content) readMerge(raw []byte) (any, error) {
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		return nil, err
	}
	if metadata, ok := body["metadata"].(map[string]any); ok {
		uid, _ := metadata["uid"].(string)
		c.object = types.UID(uid)
		delete(metadata, "uid")
		delete(metadata, "resourceVersion")
	}
	c.addLeaves(nil, body)
	return body, nil
}

// addLeaves adds the paths to all values that are no objects.
func (c *content) addLeaves(path []string, value map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(value)) {
		to := append(slices.Clone(path), name)
		if next, ok := value[name].(map[string]any); ok {
			c.addLeaves(to, next)
			continue
		}
		c.paths = append(c.paths, to)
	}
}

// fields names the changed fields for a message.
func (c content) fields() string {
	names := make([]string, len(c.paths))
	for i, path := range c.paths {
		for _, name := range path {
			switch {
			case strings.ContainsAny(name, "./"):
				names[i] += "[" + name + "]"
			case names[i] == "":
				names[i] = name
			default:
				names[i] += "." + name
			}
		}
	}
	return FirstNamed(names, maxNamed)
}
