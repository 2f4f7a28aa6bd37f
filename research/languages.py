"""Measures whether tasks in other languages find English tools: `python -m research.languages --data ../shared`.

It uses sixteen everyday tasks in four languages against 7,627 real MCP tools. The figure is the share of the five best
tools whose name or description mentions the requested thing. This is a coarse probe for comparing models, not a
benchmark.
"""

import argparse
import re
from pathlib import Path

import numpy as np

from research import sources, views
from research.measure import by_field
from research.static import StaticEmbedder

LANGUAGES = ("zh", "es", "de", "ru")
TASKS = {  # what a fitting tool's text matches -> the task in each language
    "weather": (
        "查询北京天气预报", "¿Qué tiempo hará mañana en Madrid?",
        "Wie wird das Wetter morgen in Berlin?", "Прогноз погоды в Москве на завтра",
    ),
    "mail": (
        "发送电子邮件给我的同事", "enviar un correo electrónico a Ana",
        "Schicke eine E-Mail an meinen Chef", "отправить письмо по электронной почте",
    ),
    "file": (
        "读取文件内容", "leer el contenido de un archivo",
        "Lies den Inhalt einer Datei", "прочитать содержимое файла",
    ),
    "commit": (
        "显示 git 提交历史", "mostrar el historial de commits del repositorio",
        "Zeige die Commit-Historie des Repositorys", "показать историю коммитов",
    ),
    "translat": (
        "把这段文字翻译成英语", "traduce este texto al inglés",
        "Übersetze diesen Text ins Englische", "переведи текст на английский",
    ),
    "image": (
        "生成一张猫的图片", "generar una imagen de un gato",
        "Erzeuge ein Bild von einer Katze", "создай изображение кота",
    ),
    "database|sql|query": (
        "在数据库中执行SQL查询", "ejecutar una consulta SQL en la base de datos",
        "Führe eine SQL-Abfrage in der Datenbank aus", "выполнить SQL запрос к базе данных",
    ),
    "calendar|event|meeting": (
        "在日历中创建一个会议", "crear una reunión en el calendario",
        "Erstelle einen Termin im Kalender", "создать встречу в календаре",
    ),
    "delete|remove": ("删除目录", "eliminar un directorio", "Lösche ein Verzeichnis", "удалить каталог"),
    "container|docker": (
        "列出所有正在运行的容器", "listar los contenedores en ejecución",
        "Liste alle laufenden Container auf", "показать запущенные контейнеры",
    ),
    "flight|ticket": (
        "预订去上海的机票", "reservar un vuelo a Londres",
        "Buche einen Flug nach London", "забронировать рейс в Лондон",
    ),
    "stock|share": (
        "查询苹果公司的股票价格", "precio de las acciones de Apple",
        "Aktienkurs von Apple abrufen", "цена акций Apple",
    ),
    "password|encrypt": (
        "加密文件", "cifrar un archivo con contraseña",
        "Verschlüssle eine Datei mit Passwort", "зашифровать файл паролем",
    ),
    "map|route|direction|distance": (
        "从A到B的路线", "ruta en coche de Madrid a Sevilla",
        "Route von Berlin nach Hamburg", "маршрут от Москвы до Казани",
    ),
    "search|web": (
        "在网上搜索新闻", "buscar noticias en la web",
        "Suche im Web nach Nachrichten", "искать новости в интернете",
    ),
    "note|task|todo": (
        "添加一个待办事项", "añadir una tarea pendiente", "Füge eine Aufgabe hinzu", "добавить задачу",
    ),
}  # fmt: skip


def shares(model: StaticEmbedder, data: Path) -> dict[str, float]:
    tools = sources.tools(data / "bench/mcp_catalog_toolsdk")
    texts = [f"{views.name(tool)} {tool.description}".lower() for tool in tools]
    documents = by_field(model, tools)
    found: dict[str, list[bool]] = {language: [] for language in LANGUAGES}
    for pattern, tasks in TASKS.items():
        scores = model.embed(list(tasks)) @ documents.T
        for language, row in zip(LANGUAGES, scores, strict=True):
            found[language] += [
                re.search(pattern, texts[number]) is not None for number in np.argsort(-row)[:5]
            ]
    return {language: float(np.mean(hits)) for language, hits in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, required=True, help="the folder that holds bench/ and train/"
    )
    parser.add_argument("--model", type=Path, default=Path("orchestrator/data/embedder"))
    arguments = parser.parse_args()
    for language, share in shares(StaticEmbedder.load(arguments.model), arguments.data).items():
        print(f"{language}  {share:.2f}")


if __name__ == "__main__":
    main()
