// Command wire prints how the built-in kinds are written as protocol buffers: for each type its fields by
// number, read by reflection from the types of the published client library. Facts only.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"k8s.io/client-go/kubernetes/scheme"
)

// Types with a form of their own in JSON.
var special = map[string]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":       "T",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":  "U",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":   "D",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":   "F",
	"k8s.io/apimachinery/pkg/api/resource.Quantity":   "Q",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString": "I",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":    "R",
}

var types = map[string]map[string][]string{}

func name(t reflect.Type) string {
	path := strings.TrimPrefix(strings.TrimPrefix(t.PkgPath(), "k8s.io/api/"), "k8s.io/apimachinery/pkg/")
	return strings.ReplaceAll(path, "/", ".") + "." + t.Name()
}

func code(t reflect.Type) string {
	if known, ok := special[t.PkgPath()+"."+t.Name()]; ok {
		return known
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + code(t.Elem())
	case reflect.String:
		return "s"
	case reflect.Bool:
		return "b"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint32, reflect.Uint64:
		return "i"
	case reflect.Float64, reflect.Float32:
		return "d"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "y"
		}
		if t.Name() != "" { // a named list is a message that holds items
			return "V" + code(t.Elem())
		}
		return "[" + code(t.Elem())
	case reflect.Map:
		return "{" + code(t.Elem())
	case reflect.Struct:
		visit(t)
		return "@" + name(t)
	}
	panic(fmt.Sprintf("no code for %v", t))
}

// isAlwaysWritten tells whether JSON shows a field even if it is empty: of structs only omitzero hides it.
func isAlwaysWritten(t reflect.Type, options []string) bool {
	if slices.Contains(options, "omitzero") {
		return false
	}
	return t.Kind() == reflect.Struct || !slices.Contains(options, "omitempty")
}

func visit(t reflect.Type) {
	if _, done := types[name(t)]; done {
		return
	}
	fields := map[string][]string{}
	types[name(t)] = fields
	for i := 0; i < t.NumField(); i++ {
		field := t.Field(i)
		proto := field.Tag.Get("protobuf")
		if proto == "" || proto == "-" {
			continue
		}
		number := strings.Split(proto, ",")[1]
		jsonTag := strings.Split(field.Tag.Get("json"), ",")
		kind := code(field.Type)
		if jsonTag[0] == "" { // inlined: its fields belong to this object
			kind = "^" + strings.TrimPrefix(kind, "*")
		}
		fields[number] = []string{jsonTag[0], kind}
		if isAlwaysWritten(field.Type, jsonTag[1:]) {
			fields[number] = append(fields[number], "a")
		}
	}
}

func main() {
	kinds := map[string]string{}
	for gvk, t := range scheme.Scheme.AllKnownTypes() {
		if gvk.Version == "__internal" || strings.HasPrefix(t.PkgPath(), "k8s.io/apimachinery") {
			continue
		}
		visit(t)
		version, _ := gvk.ToAPIVersionAndKind()
		kinds[version+"/"+gvk.Kind] = name(t)
	}
	for _, options := range []string{"DeleteOptions"} {
		t := scheme.Scheme.AllKnownTypes()[scheme.Scheme.PreferredVersionAllGroups()[0].WithKind(options)]
		if t != nil {
			visit(t)
			kinds["v1/"+options] = name(t)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"kinds": kinds, "types": types}); err != nil {
		panic(err)
	}
}
