package contract

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CRDName returns the name that the contract requires for the CustomResourceDefinition of a kind: the plural of the lower-case kind, and
// the group. Cluster API finds CRDs by this name only and never lists them, so it does not find a CRD with another plural. Rule: contract
// page "CRD naming" (util/contract CalculateCRDName).
//
// The plural is that of github.com/gobuffalo/flect v1.0.3, which controller-gen uses too. flect treats the kind as one word and does not
// recognize all plurals and singulars: Metadata, Settings and Series do not change, Lambda is treated as a plural and does not change,
// Index becomes indices and Repo becomes repoes. CRDName returns the same name for every kind whose last part is a likely word for a kind;
// a test compares the two. It differs for rare Latin and Greek words (alumna, noumenon), and for a kind that is only an acronym ending in S
// (DNS, HTTPS), for which flect returns a name that no CRD can have.
func CRDName(gk schema.GroupKind) string { return ResourceOf(gk).Resource + "." + gk.Group }

// ResourceOf returns the resource of a kind in API paths and RBAC rules, with the plural of CRDName.
func ResourceOf(gk schema.GroupKind) schema.GroupResource {
	return schema.GroupResource{Group: gk.Group, Resource: plural(strings.ToLower(gk.Kind))}
}

// Irregular plurals by ending, as singular:plural. A word that already has the plural ending does not change, so a word with one form is
// listed with itself. The first matching ending applies.
const (
	irregularEndings = `
		human:humans man:men person:people child:children foot:feet tooth:teeth goose:geese mouse:mice
		aircraft:aircraft beef:beef bison:bison deer:deer fish:fish moose:moose police:police salmon:salmon sheep:sheep
		shrimp:shrimp swine:swine trout:trout tuna:tuna you:you
		equipment:equipment information:information money:money rice:rice
		agenda:agendas formula:formulas quota:quotas bula:bulae larva:larvae vertebra:vertebrae vita:vitae
		seum:seums stadium:stadiums curriculum:curriculums
		criterion:criteria lexicon:lexica phenomenon:phenomena taxon:taxa hedron:hedra
		cactus:cacti corpus:corpora focus:foci genus:genera locus:loci nucleus:nuclei octopus:octupuses radius:radii
		alumnus:alumni bacillus:bacilli syllabus:syllabi
		apex:apices codex:codices index:indices latex:latices vertex:vertices vortex:vortices
		appendix:appendices helix:helices radix:radices trix:trices
		basis:bases crisis:crises ellipsis:ellipses genesis:geneses oasis:oases thesis:theses
		gnosis:gnoses iasis:iases kinesis:kineses mesis:meses opsis:opses resis:reses ysis:yses
		dwarf:dwarfs thief:thieves lf:lves rf:rves eaf:eaves oaf:oaves fe:ves
		buffalo:buffaloes potato:potatoes tomato:tomatoes topaz:topazes bureau:bureaus eau:eaux graffiti:graffiti`
	// irregularWords apply to whole words only.
	irregularWords = "alias:aliases axis:axes die:dice louse:lice ox:oxen ssh:sshs"
	// latinStems are the endings before -um in words whose plural ends in -a. A word with such a stem and -a is treated as a plural.
	latinStems = "i e o d el il ol ul ll yl im ern gn br cr ter ser tr ant at ent et it ot ut ct ov"
)

func plural(word string) string {
	for pair := range strings.FieldsSeq(irregularWords) {
		if one, many, _ := strings.Cut(pair, ":"); word == one || word == many {
			return many
		}
	}
	for pair := range strings.FieldsSeq(irregularEndings) {
		one, many, _ := strings.Cut(pair, ":")
		if strings.HasSuffix(word, many) {
			return word
		}
		if stem, found := strings.CutSuffix(word, one); found {
			return stem + many
		}
	}
	for ending := range strings.FieldsSeq(latinStems) {
		if strings.HasSuffix(word, ending+"a") {
			return word
		}
		if strings.HasSuffix(word, ending+"um") {
			return strings.TrimSuffix(word, "um") + "a"
		}
	}
	return regularPlural(word)
}

func regularPlural(word string) string {
	switch {
	case word == "":
		return word
	case endsIn(word, "ay", "ey", "oy"), endsIn(word, "uy") && !endsIn(word, "quy"):
		return word + "s"
	case endsIn(word, "y"):
		return strings.TrimSuffix(word, "y") + "ies"
	case endsIn(word, "io", "lo", "to", "oo", "ano"):
		return word + "s"
	case endsIn(word, "ss", "us", "sh", "ch", "x", "tz", "zz", "o"):
		return word + "es"
	case endsIn(word, "s"): // treated as a plural
		return word
	case endsIn(word, "ez", "iz"):
		return word + "zes"
	default:
		return word + "s"
	}
}

func endsIn(word string, endings ...string) bool {
	return slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(word, e) })
}
