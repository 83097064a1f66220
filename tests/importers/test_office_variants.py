"""No part of an Office document is lost, and nothing that was deleted from one is read."""

import io
import sys
import zipfile
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from importers.core.file_texts import extract_office_text
from importers.core.results import ReceiptCode
from tests.importers.imports import receipts, records, run
from tests.importers.needs import OFFICE, OPEN_DOCUMENTS, WORD_FILES, optional_module

openpyxl, pptx = optional_module("openpyxl"), optional_module("pptx")
for module in ("pptx.oxml", "pptx.chart.data", "pptx.enum.chart"):
    optional_module(module)

pytestmark = [pytest.mark.django_db, OFFICE, WORD_FILES, OPEN_DOCUMENTS]

docx, odfdo = optional_module("docx"), optional_module("odfdo")


class Variant(NamedTuple):
    """A file with texts that must be read, and texts that must not."""

    content: bytes
    kept: list[str]
    deleted: Sequence[str] = ()


def saved(document: Any) -> bytes:
    content = io.BytesIO()
    document.save(content)
    return content.getvalue()


def changed(content: bytes, change: Callable[[str, bytes], bytes], **parts: str) -> bytes:
    """Return an archive with changed and further parts."""
    stream = io.BytesIO()
    source = zipfile.ZipFile(io.BytesIO(content))
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, change(name, source.read(name)))
        for name, part in parts.items():
            target.writestr(name, part)
    return stream.getvalue()


def replaced(content: bytes, *pairs: tuple[str, str]) -> bytes:
    def change(_name: str, part: bytes) -> bytes:
        for old, new in pairs:
            part = part.replace(old.encode(), new.encode())
        return part

    return changed(content, change)


def assert_read(tmp_path: Path, suffix: str, variants: dict[str, Variant]) -> None:
    for name, variant in variants.items():
        (tmp_path / f"{name}{suffix}").write_bytes(variant.content)

    run(tmp_path)

    texts = {Path(each["path"]).stem: each["text"] or "" for each in records("documents")}
    lost = {
        name: text
        for name, each in variants.items()
        for text in each.kept
        if text not in texts[name]
    }
    wrong = {
        name: text
        for name, each in variants.items()
        for text in each.deleted
        if text in texts[name]
    }
    assert (lost, wrong) == ({}, {})
    assert receipts() == set()


def renamed(content: bytes, old: str, new: str) -> bytes:
    """Return an archive with another name of a part."""
    stream = io.BytesIO()
    source = zipfile.ZipFile(io.BytesIO(content))
    relations = (
        old.replace("word/", "word/_rels/") + ".rels",
        new.replace("word/", "word/_rels/") + ".rels",
    )
    with zipfile.ZipFile(stream, "w") as target:
        for name in source.namelist():
            part = source.read(name).replace(old.encode(), new.encode())
            target.writestr({old: new, relations[0]: relations[1]}.get(name, name), part)
    return stream.getvalue()


NAMESPACES = """xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"
xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"
xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"
xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"
xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"
xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"
xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"
xmlns:v="urn:schemas-microsoft-com:vml"
xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml" """


def r(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


def p(content: str) -> str:
    return f"<w:p>{content}</w:p>"


def word(body: str, *pairs: tuple[str, str], **parts: str) -> bytes:
    document = docx.Document()
    for style in list(document.styles.element):  # a hundred times as long as the text
        if style.get(docx.oxml.ns.qn("w:styleId")) != "ListNumber":
            document.styles.element.remove(style)
    element = docx.oxml.parse_xml(f"<w:body {NAMESPACES}>{body}</w:body>")
    for number, child in enumerate(list(element)):
        document.element.body.insert(number, child)
    content = replaced(saved(document), *pairs)
    return changed(content, lambda _name, part: part, **parts)


def part(name: str, xml: str, *, body: str, kind: str) -> bytes:
    """Return a Word file with a part such as comments."""
    element = xml.replace(">", f" {NAMESPACES}>", 1)
    content_type = f"application/vnd.openxmlformats-officedocument.wordprocessingml.{kind}+xml"
    relation = f"http://schemas.openxmlformats.org/officeDocument/2006/relationships/{kind}"
    content = word(body)

    def change(path: str, content: bytes) -> bytes:
        override = f'<Override PartName="/word/{name}" ContentType="{content_type}"/></Types>'
        if path == "[Content_Types].xml":
            return content.replace(b"</Types>", override.encode())
        if path == "word/_rels/document.xml.rels":
            link = f'<Relationship Id="rIdX" Type="{relation}" Target="{name}"/></Relationships>'
            return content.replace(b"</Relationships>", link.encode())
        return content

    return changed(content, change, **{f"word/{name}": element})


WORD: dict[str, tuple[str, list[str], list[str]]] = {
    "ins": (p(r("A ") + f'<w:ins w:id="1" w:author="x">{r("INS")}</w:ins>'), ["INS"], []),
    "del": (p(r("A ") + '<w:del w:id="1" w:author="x"><w:r><w:delText>DEL</w:delText></w:r></w:del>'), ["A"], ["DEL"]),
    "delT": (p(r("A ") + '<w:del w:id="1" w:author="x"><w:r><w:t>DEL</w:t></w:r></w:del>'), ["A"], ["DEL"]),
    "move": (p(f'<w:moveFrom w:id="1" w:author="x">{r("OLD")}</w:moveFrom>') + p(f'<w:moveTo w:id="2" w:author="x">{r("NEW")}</w:moveTo>'), ["NEW"], ["OLD"]),
    "delpara": ('<w:p><w:pPr><w:rPr><w:del w:id="1" w:author="x"/></w:rPr></w:pPr><w:del w:id="2" w:author="x"><w:r><w:delText>DEL</w:delText></w:r></w:del></w:p>' + p(r("B")), ["B"], ["DEL"]),
    "delrow": ('<w:tbl><w:tr><w:trPr><w:del w:id="1" w:author="x"/></w:trPr><w:tc>' + p('<w:del w:id="3" w:author="x"><w:r><w:delText>DELROW</w:delText></w:r></w:del>') + "</w:tc></w:tr><w:tr><w:tc>" + p(r("ROW")) + "</w:tc></w:tr></w:tbl>", ["ROW"], ["DELROW"]),
    "delrowT": ('<w:tbl><w:tr><w:trPr><w:del w:id="1" w:author="x"/></w:trPr><w:tc>' + p(r("DELROW")) + "</w:tc></w:tr><w:tr><w:tc>" + p(r("ROW")) + "</w:tc></w:tr></w:tbl>", ["ROW"], ["DELROW"]),
    "fldSimple": (p(f'<w:fldSimple w:instr=" DATE ">{r("FIELD")}</w:fldSimple>'), ["FIELD"], ["DATE"]),
    "fldChar": (p('<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> MERGEFIELD n </w:instrText></w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r>' + r("RESULT") + '<w:r><w:fldChar w:fldCharType="end"/></w:r>'), ["RESULT"], ["MERGEFIELD"]),
    "fldnested": (p('<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> IF </w:instrText></w:r><w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> X </w:instrText></w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r>' + r("INNERCOND") + '<w:r><w:fldChar w:fldCharType="end"/></w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r>' + r("RESULT") + '<w:r><w:fldChar w:fldCharType="end"/></w:r>'), ["RESULT"], []),
    "hyperlinkfield": (p('<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> HYPERLINK "https://x.org/p" </w:instrText></w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r>' + r("LINK") + '<w:r><w:fldChar w:fldCharType="end"/></w:r>'), ["LINK", "https://x.org/p"], []),
    "formtext": (p('<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:name w:val="t"/></w:ffData></w:fldChar></w:r><w:r><w:instrText> FORMTEXT </w:instrText></w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r>' + r("TYPED") + '<w:r><w:fldChar w:fldCharType="end"/></w:r>'), ["TYPED"], []),
    "checkbox": (p('<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:checkBox><w:default w:val="1"/></w:checkBox></w:ffData></w:fldChar></w:r><w:r><w:instrText> FORMCHECKBOX </w:instrText></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>' + r("YES")), ["YES"], []),
    "sdtblock": (f"<w:sdt><w:sdtPr/><w:sdtContent>{p(r('SDT'))}</w:sdtContent></w:sdt>", ["SDT"], []),
    "sdtinline": (p(f"<w:sdt><w:sdtPr/><w:sdtContent>{r('SDT')}</w:sdtContent></w:sdt>"), ["SDT"], []),
    "sdtrow": ("<w:tbl><w:sdt><w:sdtContent><w:tr><w:tc>" + p(r("SDTROW")) + "</w:tc></w:tr></w:sdtContent></w:sdt></w:tbl>", ["SDTROW"], []),
    "sdtcell": ("<w:tbl><w:tr><w:sdt><w:sdtContent><w:tc>" + p(r("SDTCELL")) + "</w:tc></w:sdtContent></w:sdt></w:tr></w:tbl>", ["SDTCELL"], []),
    "sdtcheckbox": (p('<w:sdt><w:sdtPr><w14:checkbox><w14:checked w14:val="1"/></w14:checkbox></w:sdtPr><w:sdtContent><w:r><w:t>☒</w:t></w:r></w:sdtContent></w:sdt>' + r("DONE")), ["DONE", "☒"], []),
    "math": (p("<m:oMath><m:r><m:t>E=mc2</m:t></m:r></m:oMath>"), ["E=mc2"], []),
    "mathpara": (p("<m:oMathPara><m:oMath><m:f><m:num><m:r><m:t>NUM</m:t></m:r></m:num><m:den><m:r><m:t>DEN</m:t></m:r></m:den></m:f></m:oMath></m:oMathPara>"), ["NUM", "DEN"], []),
    "textboxvml": (p(f"<w:r><w:pict><v:shape><v:textbox><w:txbxContent>{p(r('BOX'))}</w:txbxContent></v:textbox></v:shape></w:pict></w:r>"), ["BOX"], []),
    "textboxalt": (p(f'<w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing><wp:inline><a:graphic><a:graphicData uri="x"><wps:wsp><wps:txbx><w:txbxContent>{p(r("BOX"))}</w:txbxContent></wps:txbx></wps:wsp></a:graphicData></a:graphic></wp:inline></w:drawing></mc:Choice><mc:Fallback><w:pict><v:shape><v:textbox><w:txbxContent>{p(r("BOX"))}</w:txbxContent></v:textbox></v:shape></w:pict></mc:Fallback></mc:AlternateContent></w:r>'), ["BOX"], ["BOXBOX"]),
    "textboxchoice": (p(f'<w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing><wp:inline><a:graphic><a:graphicData uri="x"><wps:wsp><wps:txbx><w:txbxContent>{p(r("BOX"))}</w:txbxContent></wps:txbx></wps:wsp></a:graphicData></a:graphic></wp:inline></w:drawing></mc:Choice></mc:AlternateContent></w:r>'), ["BOX"], []),
    "textboxdrawing": (p(f'<w:r><w:drawing><wp:inline><a:graphic><a:graphicData uri="x"><wps:wsp><wps:txbx><w:txbxContent>{p(r("BOX"))}</w:txbxContent></wps:txbx></wps:wsp></a:graphicData></a:graphic></wp:inline></w:drawing></w:r>'), ["BOX"], []),
    "nested": ("<w:tbl><w:tr><w:tc><w:tbl><w:tr><w:tc>" + p(r("INNER")) + "</w:tc></w:tr></w:tbl>" + p(r("OUTER")) + "</w:tc></w:tr></w:tbl>", ["INNER", "OUTER"], []),
    "cells": ("<w:tbl><w:tr><w:tc>" + p(r("C1")) + "</w:tc><w:tc>" + p(r("C2")) + "</w:tc></w:tr></w:tbl>", ["C1", "C2"], ["C1C2"]),
    "rtl": ("<w:p><w:pPr><w:bidi/></w:pPr><w:r><w:rPr><w:rtl/></w:rPr><w:t>שלום עולם</w:t></w:r></w:p>", ["שלום עולם"], []),
    "tab": (p("<w:r><w:t>A</w:t><w:tab/><w:t>B</w:t><w:br/><w:t>C</w:t><w:noBreakHyphen/><w:t>D</w:t><w:cr/><w:t>E</w:t></w:r>"), ["A B"], ["AB", "BC", "CD", "DE"]),
    "sym": (p('<w:r><w:t>x</w:t><w:sym w:font="Wingdings" w:char="F0FC"/></w:r>'), ["x"], []),
    "smarttag": (p(f'<w:smartTag w:uri="x" w:element="y">{r("SMART")}</w:smartTag>'), ["SMART"], []),
    "customxml": (f'<w:customXml w:element="y">{p(r("CUSTOM"))}</w:customXml>', ["CUSTOM"], []),
    "customxmlinl": (p(f'<w:customXml w:element="y">{r("CUSTOM")}</w:customXml>'), ["CUSTOM"], []),
    "bdo": (p(f'<w:bdo w:val="rtl">{r("BDO")}</w:bdo><w:dir w:val="rtl">{r("DIRR")}</w:dir>'), ["BDO", "DIRR"], []),
    "ruby": (p("<w:r><w:ruby><w:rt><w:r><w:t>RT</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>BASE</w:t></w:r></w:rubyBase></w:ruby></w:r>"), ["BASE"], []),
    "vanish": (p("<w:r><w:rPr><w:vanish/></w:rPr><w:t>HID</w:t></w:r>"), ["HID"], []),
    "insnested": (p(f'<w:ins w:id="1" w:author="x"><w:del w:id="2" w:author="y"><w:r><w:delText>GONE</w:delText></w:r></w:del>{r("KEEP")}</w:ins>'), ["KEEP"], ["GONE"]),
    "emptycells": ('<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val="2"/></w:tcPr>' + p(r("SPAN")) + '</w:tc></w:tr><w:tr><w:tc><w:tcPr><w:vMerge w:val="restart"/></w:tcPr>' + p(r("VM")) + "</w:tc><w:tc>" + p(r("X1")) + "</w:tc></w:tr><w:tr><w:tc><w:tcPr><w:vMerge/></w:tcPr>" + p(r("HIDDENVM")) + "</w:tc><w:tc>" + p(r("X2")) + "</w:tc></w:tr></w:tbl>", ["SPAN", "VM", "X1", "X2"], []),
    "amp": (p(r("a &lt;b&gt; &amp;amp; c")), ["a <b> &amp; c"], []),
    "list": ('<w:p><w:pPr><w:pStyle w:val="ListNumber"/></w:pPr>' + r("ONE") + "</w:p>", ["ONE"], []),
}  # fmt: skip


def test_word(tmp_path: Path) -> None:
    variants = {
        name: Variant(word(body), kept, deleted) for name, (body, kept, deleted) in WORD.items()
    }
    note = f'<w:footnotes><w:footnote w:id="2">{p(r("FOOT"))}</w:footnote></w:footnotes>'
    reference = p(r("A") + '<w:r><w:footnoteReference w:id="2"/></w:r>' + r("rest"))
    end_reference = reference.replace("footnote", "endnote")
    comment = f'<w:comments><w:comment w:id="2" w:author="Eva" w:initials="E">{p(r("COMMENT"))}</w:comment></w:comments>'
    commented = p(r("A") + '<w:r><w:commentReference w:id="2"/></w:r>')
    deletion = '<w:del w:id="1"><w:r><w:delText>DEL</w:delText></w:r></w:del>'
    header = (
        f"<w:hdr>{p(r('HEAD ') + deletion + '<w:r><w:t>A</w:t><w:tab/><w:t>B</w:t></w:r>')}</w:hdr>"
    )
    main = "wordprocessingml"
    variants |= {
        "footnote": Variant(
            part("footnotes.xml", note, body=reference, kind="footnotes"),
            ["FOOT", "rest"],
            ["Arest"],
        ),
        "endnote": Variant(
            part(
                "endnotes.xml",
                note.replace("footnote", "endnote"),
                body=end_reference,
                kind="endnotes",
            ),
            ["FOOT"],
        ),
        "comment": Variant(
            part("comments.xml", comment, body=commented, kind="comments"), ["COMMENT"]
        ),
        "header": Variant(
            part("header9.xml", header, body=p(r("A")), kind="header"), ["HEAD A B"], ["DEL"]
        ),
        "other_name": Variant(
            renamed(word(p(r("TWO"))), "word/document.xml", "word/document2.xml"), ["TWO"]
        ),
        "strict": Variant(
            word(
                p(r("STRICT")),
                (
                    f"http://schemas.openxmlformats.org/{main}/2006/",
                    f"http://purl.oclc.org/ooxml/{main}/",
                ),
            ),
            ["STRICT"],
        ),
        "absolute": Variant(word(p(r("ABS")), ('Target="word/', 'Target="/word/')), ["ABS"]),
    }
    assert_read(tmp_path, ".docx", variants)


def sheet(**cells: Any) -> Any:
    workbook = openpyxl.Workbook()
    for name, value in cells.items():
        workbook.active[name] = value
    return workbook


def excel_variants() -> dict[str, Variant]:
    commented, linked, charted = sheet(A1="x"), sheet(A1="a"), sheet(A1="x", A2=3)
    commented.active["A1"].comment = openpyxl.comments.Comment("CMT", "Eva")
    linked.active["A1"].hyperlink = "https://x.org/q"
    chart = openpyxl.chart.BarChart()
    chart.title = "CHTITLE"
    chart.add_data(openpyxl.chart.Reference(charted.active, min_col=1, min_row=1, max_row=2))
    charted.create_chartsheet("Chart").add_chart(chart)
    charted.create_sheet("S2")["A1"] = "SECOND"
    old_epoch = openpyxl.Workbook()
    old_epoch.epoch = openpyxl.utils.datetime.CALENDAR_MAC_1904
    old_epoch.active["A1"] = date(2026, 1, 5)
    typed = sheet(
        A1=datetime(2026, 1, 5, 8),  # noqa: DTZ001
        A2=time(8, 30),
        A4=0.19,
        A6=True,
        A7=45000,
        A8="#REF!",
    )
    typed.active["A4"].number_format = "0%"
    typed.active["A7"].number_format = "dd.mm.yyyy"
    typed.active["A8"].data_type = "e"
    merged = sheet(A1="a", D4="D")
    merged.active.merge_cells("A1:C3")
    merged.active.sheet_state = "hidden"
    merged.create_sheet("v")
    tall = sheet(A1="first", A1048576="LAST")
    tall.create_sheet("b")["A1"] = "AFTER"
    inline = (
        '<sheetData><row r="1"><c r="A1" t="inlineStr"><is><r><t>IN</t></r><r><t>LINE</t></r></is></c>'
        '<c r="B1" t="str"><f>A1</f><v>STR</v></c><c r="C1" t="d"><v>2026-01-05</v></c></row></sheetData>'
    )
    spreadsheet = "spreadsheetml/2006/main", "http://purl.oclc.org/ooxml/spreadsheetml/main"
    relations = "http://{}officeDocument/{}relationships"
    strict = (
        (f"http://schemas.openxmlformats.org/{spreadsheet[0]}", spreadsheet[1]),
        (
            relations.format("schemas.openxmlformats.org/", "2006/"),
            relations.format("purl.oclc.org/ooxml/", ""),
        ),
    )
    wrong_dimension = ('<dimension ref="A1:C3"', '<dimension ref="A1:A1"')
    macro = (
        "openxmlformats-officedocument.spreadsheetml.sheet.main",
        "ms-excel.sheet.macroEnabled.main",
    )
    return {
        "formula": Variant(
            saved(sheet(A1="Sum", B1=1, B3="=SUM(B1:B2)")), ["Sum | 1", "=SUM(B1:B2)"]
        ),
        "comment": Variant(saved(commented), ["A1: CMT"]),
        "chart_sheet": Variant(saved(charted), ["x", "SECOND", "CHTITLE"]),
        "epoch": Variant(saved(old_epoch), ["2026-01-05"]),
        "types": Variant(
            saved(typed), ["2026-01-05 08:00", "08:30", "0.19", "True", "2023-03-15", "#REF!"]
        ),
        "wide": Variant(saved(sheet(A1="first", XFD2000="LAST")), ["first", "LAST"]),
        "tall": Variant(saved(tall), ["first", "LAST", "AFTER"]),
        "dimension": Variant(
            replaced(saved(sheet(A1="a", C3="OUTSIDE")), wrong_dimension), ["OUTSIDE"]
        ),
        "merged": Variant(saved(merged), ["a", "| D"]),
        "link": Variant(saved(linked), ["https://x.org/q"]),
        "inline": Variant(
            replaced(saved(sheet()), ("<sheetData></sheetData>", inline)),
            ["INLINE", "STR", "2026-01-05"],
        ),
        "macros": Variant(replaced(saved(sheet(A1="MAC")), macro), ["MAC"]),
        "strict": Variant(replaced(saved(sheet(A1="STRICT")), *strict), ["STRICT"]),
    }


def test_excel(tmp_path: Path) -> None:
    assert_read(tmp_path, ".xlsx", excel_variants())


DRAWN = (
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    ' xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
    ' xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
)


def shape(text: str, more: str = "") -> str:
    return (
        f'<p:sp {DRAWN}><p:nvSpPr><p:cNvPr id="9" name="x"/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr/><p:txBody>'
        f"<a:bodyPr/><a:p><a:r><a:t>{text}</a:t></a:r>{more}</a:p></p:txBody></p:sp>"
    )


def deck(*shapes: str) -> Any:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = "TITLE"
    for each in shapes:
        slide.shapes._spTree.append(pptx.oxml.parse_xml(each))
    return presentation


def powerpoint_variants() -> dict[str, Variant]:
    choice = f'<mc:Choice Requires="p14">{shape("ALT")}</mc:Choice><mc:Fallback>{shape("ALT")}</mc:Fallback>'
    field = (
        '<a:fld id="{1}" type="datetime1"><a:t>FLD</a:t></a:fld><a:br/><a:r><a:t>AFTER</a:t></a:r>'
    )
    hidden, charted, table = deck(), deck(), deck()
    hidden.slides[0]._element.set("show", "0")
    noted = deck()
    noted.slides[0].notes_slide.notes_text_frame.text = "NOTED"
    grouped = noted.slides[0].shapes.add_group_shape().shapes
    grouped.add_textbox(0, 0, 9, 9).text_frame.text = "GROUPED"
    data = pptx.chart.data.CategoryChartData()
    data.categories = ["East"]
    data.add_series("Sales", (19.2,))
    kind = pptx.enum.chart.XL_CHART_TYPE.COLUMN_CLUSTERED
    chart = charted.slides[0].shapes.add_chart(kind, 0, 0, 9_999, 9_999, data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "CHT"
    cells = table.slides[0].shapes.add_table(2, 2, 0, 0, 9, 9).table
    cells.cell(0, 0).text, cells.cell(1, 1).text = "M", "N"
    cells.cell(0, 0).merge(cells.cell(0, 1))
    comments = f'<p:cmLst {DRAWN}><p:cm authorId="0"><p:text>PCOMMENT</p:text></p:cm></p:cmLst>'
    main = "application/vnd.openxmlformats-officedocument.presentationml.presentation.main"
    macros = "application/vnd.ms-powerpoint.presentation.macroEnabled.main"
    keep: Callable[[str, bytes], bytes] = lambda _name, part: part  # noqa: E731
    return {
        "alternate": Variant(
            saved(deck(f"<mc:AlternateContent {DRAWN}>{choice}</mc:AlternateContent>")), ["ALT"]
        ),
        "field": Variant(saved(deck(shape("T", field))), ["FLD", "AFTER"], ["FLDAFTER"]),
        "hidden": Variant(saved(hidden), ["TITLE"]),
        "notes": Variant(saved(noted), ["NOTED", "GROUPED"]),
        "chart": Variant(saved(charted), ["CHT", "East", "19.2", "Sales"]),
        "table": Variant(saved(table), ["M", "N"]),
        "comment": Variant(
            changed(saved(deck()), keep, **{"ppt/comments/comment1.xml": comments}), ["PCOMMENT"]
        ),
        "show": Variant(
            replaced(saved(deck()), ("presentation.main+xml", "slideshow.main+xml")), ["TITLE"]
        ),
        "macros": Variant(replaced(saved(deck()), (main, macros)), ["TITLE"]),
    }


def test_powerpoint(tmp_path: Path) -> None:
    assert_read(tmp_path, ".pptx", powerpoint_variants())


ODF = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in (
        ("office", "office"), ("text", "text"), ("table", "table"), ("draw", "drawing"),
        ("presentation", "presentation"), ("style", "style"),
    )
) + ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xlink="http://www.w3.org/1999/xlink"'  # fmt: skip


def odf(kind: str, body: str, *, styles: str = "") -> bytes:
    content = (
        f'<office:document-content {ODF} office:version="1.2"><office:body><office:{kind}>{body}'
        f"</office:{kind}></office:body></office:document-content>"
    )
    master = (
        f'<office:document-styles {ODF} office:version="1.2"><office:master-styles>{styles}</office:master-styles>'
        "</office:document-styles>"
    )
    parts = {"content.xml": content.encode(), "styles.xml": master.encode()}
    return changed(saved(odfdo.Document(kind)), lambda name, part: parts.get(name, part))


def tp(text: str) -> str:
    return f"<text:p>{text}</text:p>"


def change(kind: str, number: int, content: str = "") -> str:
    info = "<office:change-info><dc:creator>E</dc:creator></office:change-info>"
    return f'<text:changed-region text:id="c{number}"><text:{kind}>{info}{content}</text:{kind}></text:changed-region>'


TEXTS = {
    "tracked": (
        f"<text:tracked-changes>{change('deletion', 1, tp('DELETED'))}{change('insertion', 2)}</text:tracked-changes>"
        + tp('A<text:change text:change-id="c1"/> <text:change-start text:change-id="c2"/>INSERTED'),
        ["A INSERTED"], ["DELETED", "E\n"],
    ),
    "note": (tp(f'A<text:note><text:note-citation>1</text:note-citation><text:note-body>{tp("FOOT")}</text:note-body></text:note> rest'), ["A rest", "FOOT"], []),
    "annotation": (tp(f"A<office:annotation><dc:creator>Eva</dc:creator>{tp('ANNO')}</office:annotation> B"), ["A B", "ANNO"], []),
    "frame": (tp(f"A<draw:frame><draw:text-box>{tp('BOX')}</draw:text-box></draw:frame>"), ["A", "BOX"], ["ABOX"]),
    "tables": (f'<table:table><table:table-row><table:table-cell>{tp("OUTER")}<table:table><table:table-row><table:table-cell>{tp("INNER")}</table:table-cell></table:table-row></table:table></table:table-cell><table:table-cell>{tp("C2")}</table:table-cell></table:table-row></table:table>', ["OUTER", "INNER", "C2"], ["OUTERINNER", "INNERC2"]),
    "list": (f'<text:list><text:list-item>{tp("ONE")}<text:list><text:list-item>{tp("SUB")}</text:list-item></text:list></text:list-item></text:list><text:section>{tp("SECTION")}</text:section><text:h>HEAD</text:h>', ["ONE", "SUB", "SECTION", "HEAD"], []),
    "inline": (tp('A<text:s text:c="3"/>B<text:tab/>C<text:line-break/>D <text:date>05.01.2026</text:date><text:a xlink:href="https://x.org/q">LINK</text:a><text:ruby><text:ruby-base>BASE</text:ruby-base><text:ruby-text>RT</text:ruby-text></text:ruby>'), ["A B C D 05.01.2026LINK (https://x.org/q)BASE"], []),
    "right_to_left": (tp("שלום <text:span>עולם</text:span>"), ["שלום עולם"], []),
}  # fmt: skip


def test_opendocument_text(tmp_path: Path) -> None:
    variants = {
        name: Variant(odf("text", body), kept, deleted)
        for name, (body, kept, deleted) in TEXTS.items()
    }
    page = f"<style:master-page><style:header>{tp('HEADER')}</style:header><style:footer>{tp('FOOTER')}</style:footer></style:master-page>"
    variants["pages"] = Variant(odf("text", tp("A"), styles=page), ["A", "HEADER", "FOOTER"])

    assert_read(tmp_path, ".odt", variants)


def cell(attributes: str, text: str = "", more: str = "") -> str:
    return f"<table:table-cell {attributes}>{more}{tp(text) if text else ''}</table:table-cell>"


def row(*cells: str) -> str:
    return f"<table:table-row>{''.join(cells)}</table:table-row>"


TEXT = 'office:value-type="string"'
FLOAT = 'office:value-type="float" office:value='
NOTE = f"<office:annotation>{tp('ANNO')}</office:annotation>"
ROWS = {
    "types": (row(
        cell('office:value-type="date" office:date-value="2026-01-05"', "05.01.26"),
        cell('office:value-type="percentage" office:value="0.19"', "19%"),
        cell('office:value-type="currency" office:value="9.5" office:currency="EUR"', "9,50 €"),
        cell('office:value-type="boolean" office:boolean-value="true"', "WAHR"),
        cell('office:value-type="time" office:time-value="PT08H30M00S"', "08:30"), cell(TEXT, "S"),
    ), ["2026-01-05 | 0.19 | 9.5 | WAHR | 08:30 | S"], []),
    "lines": (row(cell(TEXT, "L2", tp("L1")), cell(FLOAT + '"3" table:formula="of:=A1"', "3")), ["L1\nL2 | 3"], []),
    "note": (row(cell(TEXT, "VAL", NOTE), cell(FLOAT + '"4"', "4", NOTE.replace("ANNO", "OTHER"))), ["VAL | 4", "ANNO", "OTHER"], []),
    "repeated": (
        row(cell(f'{TEXT} table:number-columns-repeated="3"', "R"), '<table:table-cell table:number-columns-repeated="16000"/>')
        + '<table:table-row table:number-rows-repeated="1048000"><table:table-cell table:number-columns-repeated="16384"/></table:table-row>'
        + row(cell(TEXT, "END")), ["R | R | R\nEND"], []),
    "error": (row(cell(TEXT, "#DIV/0!"), cell(FLOAT + '"0"', "#REF!")), ["#DIV/0! | #REF!"], []),
    "groups": (f"<table:table-header-rows>{row(cell(TEXT, 'HDR'))}</table:table-header-rows><table:table-row-group>{row(cell(TEXT, 'GRP'))}</table:table-row-group>", ["HDR\nGRP"], []),
    "shape": (f"<table:shapes><draw:frame><draw:text-box>{tp('SHAPE')}</draw:text-box></draw:frame></table:shapes>{row(cell(TEXT, 'V'))}", ["SHAPE", "V"], []),
    "covered": (row(cell(f'{TEXT} table:number-columns-spanned="2"', "A"), "<table:covered-table-cell/>", cell(TEXT, "C")), ["A |  | C"], []),
}  # fmt: skip


def test_opendocument_spreadsheet(tmp_path: Path) -> None:
    table = '<table:table table:name="T">{}</table:table>'
    variants = {
        name: Variant(
            odf("spreadsheet", table.format(body)),
            ["T", *(text.replace("  ", " ") for text in kept)],
            deleted,
        )
        for name, (body, kept, deleted) in ROWS.items()
    }
    tracked = f"<table:tracked-changes><table:previous>{tp('OLDVAL')}</table:previous></table:tracked-changes>"
    body = tracked + table.format(row(cell(TEXT, "NEWVAL")))
    variants["tracked"] = Variant(odf("spreadsheet", body), ["NEWVAL"], ["OLDVAL"])

    assert_read(tmp_path, ".ods", variants)


def locked_opendocument() -> bytes:
    def lock(name: str, part: bytes) -> bytes:
        if name == "META-INF/manifest.xml":
            entry = b'<manifest:file-entry manifest:full-path="x"><manifest:encryption-data/></manifest:file-entry>'
            return part.replace(b"</manifest:manifest>", entry + b"</manifest:manifest>")
        return b"\x01\x02" * 50 if name == "content.xml" else part

    return changed(saved(odfdo.Document("text")), lock)


def broken_excel() -> bytes:
    """Return a workbook whose second sheet is damaged."""
    workbook = sheet(A1="KEPT")
    workbook.create_sheet("b")["A1"] = "LOST"
    return changed(
        saved(workbook), lambda name, part: part[:200] if name.endswith("sheet2.xml") else part
    )


OLD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(2_000)


ENCRYPTED = "EncryptedPackage".encode("utf-16-le")


@pytest.mark.parametrize(
    ("name", "make", "code", "text"),
    [
        ("a.xlsx", lambda: OLD + bytes(2_000_000) + ENCRYPTED, "locked", None),
        ("a.odt", locked_opendocument, "locked", None),
        ("a.doc", lambda: OLD, "old_office", None),
        ("a.xls", lambda: OLD, "old_office", None),
        ("a.ppt", lambda: OLD, "old_office", None),
        ("a.docx", lambda: OLD, "old_office", None),
        ("a.docx", lambda: b"PK\x03\x04", "no_text", None),
        ("a.xlsx", broken_excel, "partly_imported", "Sheet\nKEPT"),
    ],
)
def test_office_file_without_its_whole_text_has_a_receipt(
    tmp_path: Path, name: str, make: Callable[[], bytes], code: str, text: str | None
) -> None:
    (tmp_path / name).write_bytes(make())

    run(tmp_path / name)

    assert receipts() == {(code, name)}
    found = records("documents")[0]["text"]
    assert found == text or str(found).startswith(str(text))


RTF = rb"{\rtf1\ansi\ansicpg1252 Gr\'fc\'dfe {\deleted GONE} \u8364? {\*\comment X}end}"


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.rtf", RTF), ("a.doc", RTF), ("a.doc", "<html><body>Grüße € end</body></html>".encode())],
)
def test_texts_that_are_named_like_old_office_files(
    tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)

    run(tmp_path / name)

    assert records("documents")[0]["text"].split() == ["Grüße", "€", "end"]
    assert receipts() == set()


def test_receipt_names_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    content = word(p(r("A")))
    monkeypatch.setitem(sys.modules, "mammoth", None)

    assert extract_office_text(content).issue is ReceiptCode.NEEDS_OFFICE
